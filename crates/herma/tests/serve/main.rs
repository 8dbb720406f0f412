//! The running gateway over real sockets, with a scripted model server behind it.
#![cfg(test)]

mod alignment;
mod chat;
mod client_tools;
mod compactions;
mod contexts;
mod conversations;
mod current;
mod erasure;
mod events;
mod fact_reader;
#[cfg(target_os = "linux")]
mod health;
mod home;
mod honcho;
mod honcho_over_tls;
mod honcho_wire;
mod import;
mod isolation;
mod key_limits;
mod log;
mod long;
mod memories;
mod model_servers;
mod open_responses;
mod own_tools;
mod passed_on;
mod recall;
mod refusals;
mod resources;
mod responses;
mod revisions;
mod rewinds;
mod runs;
mod search;
mod secrets;
mod session_chat;
mod session_keys;
mod sessions;
mod settings;
mod support;
mod taken_back;
#[cfg(feature = "otlp")]
mod telemetry;
mod titles;
mod tools;
mod unnamed;
mod upstream;
mod websocket;

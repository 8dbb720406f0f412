//! The HTTP front door. The only crate that knows axum.
//!
//! - [`server`]: accepts connections, serves them, and stops.
//! - [`app`]: the routes and the layers that every request passes.
//! - `routes`: a folder per resource, a file per verb.
//! - [`headers`]: the session headers of requests and answers.
//! - [`revision`]: `ETag` and `If-Match`.
//! - [`error`]: decides the status and the retry advice of every error.
//! - [`dialect`]: what the gateway's errors and their fields are called in HTTP.
//! - [`failed_logins`]: slows down the guessing of API keys.
//! - [`stream`]: a turn as server-sent events.
//! - [`body_budget`]: how many bytes all request bodies being read may hold.
//! - [`client_socket`]: whether a client has disconnected, and whether its answer was written to its end.
//! - [`layers`]: what every request passes before its route.
//! - [`poll_again`]: polls a connection again at once if it has woken itself.
//! - [`request_log`]: one log line for each request.
//! - [`request_trace`]: the trace that a request belongs to.
//! - [`security_headers`]: what browsers may not do with an answer.
//! - [`workers`]: the runtimes that serve connections.
//! - [`sockets`]: counts the open WebSockets and tells them to close.

mod answer;
mod app;
mod auth;
mod body;
mod body_budget;
mod client_socket;
mod dialect;
mod error;
mod failed_logins;
mod front_ends;
mod headers;
mod json;
mod layers;
mod linger;
mod malformed;
mod metrics;
mod naming;
mod openapi;
mod path;
mod poll_again;
mod query;
mod request_id;
mod request_log;
mod request_trace;
mod revision;
mod routes;
mod security_headers;
mod server;
mod sockets;
mod stream;
mod workers;

pub use app::{Authentication, HttpSettings};
pub use server::Server;
pub use workers::Workers;

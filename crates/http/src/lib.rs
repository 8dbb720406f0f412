//! The HTTP front door. The only crate that knows axum.
//!
//! - [`server`]: connections: accept, serve, stop.
//! - [`app`]: the routes and what every request goes through.
//! - `routes`: a folder per resource, a file per verb.
//! - [`headers`]: the session headers, in and out.
//! - [`revision`]: `ETag` and `If-Match`.
//! - [`error`]: the one place that decides status and retry advice of a failure.
//! - [`dialect`]: what the gateway's errors and their fields are called in HTTP.
//! - [`stream`]: a turn as server-sent events.
//! - [`body_budget`]: how many bytes all request bodies being read may hold.
//! - [`client_socket`]: whether a client has hung up, and whether its answer was written to its end.
//! - [`request_log`]: one line of the log for every request.
//! - [`offered_models`]: the models that the model server offers.
//! - [`sockets`]: how many WebSockets are open, and telling them to close.

mod answer;
mod app;
mod auth;
mod body;
mod body_budget;
mod client_socket;
mod dialect;
mod error;
mod headers;
mod json;
mod linger;
mod malformed;
mod metrics;
mod naming;
mod offered_models;
mod openapi;
mod path;
mod query;
mod request_id;
mod request_log;
mod revision;
mod routes;
mod server;
mod sockets;
mod stream;

pub use app::{Authentication, HttpSettings};
pub use server::serve;

//! The Runs API, as Hermes has it: a request in; a run and its events out.
//!
//! A run is a turn that nobody has to wait for. Its request is that of a response with a few fields more; its object and its
//! events have the names that Hermes' clients read.

mod approval;
mod events;
mod object;
mod request;

pub use approval::check_approval;
pub use events::RunEvents;
pub(crate) use object::UsageJson;
pub use object::{RunEnding, RunObject, RunOutput, RunState};
pub use request::{RunRequest, parse};

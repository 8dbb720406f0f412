//! The Runs API, as in Hermes: reads requests, writes runs and their events.
//!
//! A run is a turn that its client does not have to wait for. Its request is a response request with a few more fields.
//! Its object and its events have the names that Hermes' clients read.

mod approval;
mod events;
mod object;
mod request;

pub use approval::{ApprovalTarget, RunApproval, approval_response, parse_approval};
pub use events::RunEvents;
pub(crate) use object::RunUsage;
pub use object::{PendingCall, RunEnding, RunObject, RunOutput, RunState};
pub use request::{RunRequest, parse};

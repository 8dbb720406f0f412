//! The wire formats of OpenAI and of Hermes, and the JSON of Herma's own resources, to and from the model. Pure.
//!
//! | module | what it speaks |
//! |---|---|
//! | [`chat`] | `POST /v1/chat/completions`: requests in; answers and streams out |
//! | [`responses`] | `POST /v1/responses`: requests in; response objects, items and event streams out |
//! | [`conversations`] | `/v1/conversations`: requests in; conversations out |
//! | [`runs`] | `/v1/runs`: requests in; runs and their event streams out |
//! | [`feed`] | `/api/events`: what happens to conversations, as an event stream |
//! | [`record`] | what is remembered of a stream, so that it can be given again |
//! | [`sse`] | server-sent events around any of it |
//! | [`error`] | the error envelope |
//! | [`session`] | the `session` object of every answer |
//! | [`resource`] | rows of sessions, messages and compactions |
//! | [`export`] | conversations as JSON Lines, out and in |
//! | [`passed_on`] | requests that go to the model server as they are |
//! | [`list`] | a page of rows |
//!
//! Nothing here does IO or decides anything about conversations. What a client sends is checked here once, and
//! every refusal names the field at fault; what goes out has the fields of Herma's own where clients expect
//! them, whatever a model server added.

mod bad_request;
pub mod chat;
pub mod conversations;
pub mod error;
pub mod export;
pub mod feed;
mod json;
pub mod list;
pub mod passed_on;
pub mod record;
pub mod resource;
pub mod responses;
pub mod runs;
pub mod session;
pub mod session_chat;
pub mod sse;

pub use bad_request::BadRequest;

//! Translates between model types and JSON: OpenAI's formats, Hermes' formats, and Herma's own resources. Pure.
//!
//! | module | what it covers |
//! |---|---|
//! | [`chat`] | `POST /v1/chat/completions`: requests in; answers and streams out |
//! | [`responses`] | `POST /v1/responses`: requests in; response objects, items and event streams out |
//! | [`conversations`] | `/v1/conversations`: requests in; conversations out |
//! | [`runs`] | `/v1/runs`: requests in; runs and their event streams out |
//! | [`session_chat`] | `POST /api/sessions/{id}/chat`: requests in; answers and event streams out |
//! | [`feed`] | `/api/events`: the events of conversations, as a stream |
//! | [`client_tools`] | the client's tools that the model knows by another name or in another form |
//! | [`own_tools`] | calls of Herma's own tools: what is told of them, in which order |
//! | [`record`] | in what pieces a turn was streamed, so that the stream can be replayed |
//! | [`sse`] | the frames of server-sent events |
//! | [`error`] | the error envelope |
//! | [`session`] | the `session` object of every answer |
//! | [`resource`] | rows of sessions, messages and compactions |
//! | [`export`] | conversations as JSON Lines, out and in |
//! | [`passed_on`] | requests that go to the model server as they are |
//! | [`list`] | a page of rows |
//!
//! Nothing here does IO or decides anything about conversations. Each request is checked here once, and every refusal
//! names the field at fault. In answers, fields that a model server added never overwrite Herma's own fields.

mod bad_request;
pub mod chat;
pub mod client_tools;
pub mod conversations;
pub mod error;
pub mod export;
pub mod feed;
mod json;
pub mod list;
pub mod own_tools;
pub mod passed_on;
pub mod record;
pub mod resource;
pub mod responses;
pub mod runs;
pub mod session;
pub mod session_chat;
pub mod sse;

pub use bad_request::BadRequest;

//! Model servers: the client of any OpenAI-compatible one, and the built-in offline model.
//!
//! The input of a call is a [`herma_model::ModelCall`]. Its result is a stream of events or a
//! [`herma_model::ModelFailure`]. This crate knows nothing of conversations, turns or stores. It never
//! changes the messages it is given, and its failures contain no secret.
//!
//! | module | owns |
//! |---|---|
//! | `server` | the port: what every model server can do |
//! | `client` | HTTP: requests, retries, time limits, failures |
//! | `decode` | translates what a server sends into model events; pure |
//! | `offline` | the model that answers when no server is configured; pure |
//! | `redact` | removes secrets from text |

mod client;
mod decode;
mod offline;
mod redact;
mod server;

pub use client::{Connections, HttpModelServer, HttpSettings, NotPosted, PostTarget, SettingsError};
pub use offline::OfflineModel;
pub use redact::redact;
pub use server::{ByteStream, ModelInfo, ModelServer, ModelStream, PassedAnswer, PassedTo};

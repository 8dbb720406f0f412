//! Model servers: the client of any OpenAI-compatible one, and the built-in offline model.
//!
//! A call goes in as a [`herma_model::ModelCall`] and comes back as a stream of events or a
//! [`herma_model::ModelFailure`]. This crate knows nothing of conversations, turns or stores; it never
//! changes the messages it is given, and no failure it reports contains a secret.
//!
//! | module | owns |
//! |---|---|
//! | `server` | the port: what every model server can do |
//! | `client` | HTTP: requests, retries, time limits, failures |
//! | `decode` | what a server sends, as model events; pure |
//! | `offline` | the model that answers when no server is configured; pure |
//! | `redact` | what must not appear in messages |

mod client;
mod decode;
mod offline;
mod redact;
mod server;

pub use client::{HttpModelServer, HttpSettings, SettingsError};
pub use offline::OfflineModel;
pub use redact::redact;
pub use server::{ByteStream, ModelInfo, ModelServer, ModelStream, PassedAnswer, PassedTo};

//! What tests need around Herma, all of it over real sockets and real processes.
//!
//! - [`upstream`]: a chat-completions server that records what it is asked and answers from a script;
//! - [`process`]: the `herma` binary as a child that can be killed, stopped and restarted;
//! - [`http`]: a small client for JSON answers and event streams;
//! - [`websocket`]: its WebSockets;
//! - [`response_stream`]: the rules that every stream of a response keeps;
//! - [`gate`]: how a test holds an answer back without sleeping;
//! - [`hermes`]: databases as Hermes leaves them.
//!
//! Nothing here knows Herma's own types: a test sees what a client sees. It may be a dev-dependency only, but for
//! xtask.
#![expect(clippy::expect_used, clippy::panic, reason = "a test tool fails the test it serves")]

pub mod gate;
pub mod hermes;
pub mod http;
pub mod process;
pub mod response_stream;
pub mod upstream;
pub mod websocket;

pub use gate::Gate;
pub use hermes::HermesDatabase;
pub use http::{Answer, Client, Event, EventStream};
pub use process::{Herma, Launch};
pub use response_stream::{RESPONSE_FIELDS, broken_rules, check_response_stream};
pub use upstream::{Completion, Recorded, Reply, ScriptedUpstream, ToolCall};
pub use websocket::{Said, Socket};

/// How long anything here waits for something that should happen at once, before it fails the test.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

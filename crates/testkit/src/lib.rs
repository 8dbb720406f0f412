//! Tools for tests of Herma. They use real sockets and real processes.
//!
//! - [`upstream`]: a chat-completions server that records requests and answers from a script;
//! - [`process`]: the `herma` binary as a child that can be killed, stopped and restarted;
//! - [`http`]: a small client for JSON answers and event streams;
//! - [`websocket`]: a small WebSocket client;
//! - [`response_stream`]: checks the rules that every stream of a response must follow;
//! - [`gate`]: lets a test delay an answer without sleeping;
//! - [`hermes`]: databases as Hermes writes them;
//! - [`honcho`]: a memory server that is right, slow, down or wrong;
//! - [`mcp`]: an MCP server over stdio or HTTP.
//!
//! This crate knows none of Herma's types, so a test sees only what a client sees. Except for xtask, crates may use
//! it as a dev-dependency only.
#![expect(clippy::expect_used, clippy::panic, reason = "a test tool fails the test it serves")]

pub mod gate;
pub mod hermes;
pub mod honcho;
pub mod http;
pub mod mcp;
pub mod process;
pub mod response_stream;
pub mod upstream;
pub mod websocket;

pub use gate::Gate;
pub use hermes::HermesDatabase;
pub use honcho::{FakeHoncho, HonchoConclusion, HonchoMessage, HonchoRequest, Mood, StoppedHoncho};
pub use http::{Answer, Client, Event, EventStream};
pub use mcp::McpServer;
pub use process::{Herma, Launch};
pub use response_stream::{RESPONSE_FIELDS, broken_rules, check_response_stream};
pub use upstream::{Completion, Recorded, Reply, ScriptedUpstream, ToolCall};
pub use websocket::{Said, Socket};

/// How long a tool waits for something that should happen at once. After that the test fails.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

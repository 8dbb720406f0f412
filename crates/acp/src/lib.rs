//! The ACP front door: an agent for editors that speaks the Agent Client Protocol on stdio.
//!
//! It translates between the protocol and the gateway. No rule about conversations is here.
//!
//! - [`schema`]: the only module that names the official crate. It gives the protocol's types.
//! - [`lines`]: stdin and stdout as lines, each on a thread of its own.
//! - [`message`]: a line as a request, a notification or an answer. [`error`]: errors of the gateway as those of ACP.
//! - [`editor`]: the other side: what it is sent, and what it can do. [`questions`]: what it is asked.
//! - [`agent`]: which method is carried out how; [`in_flight`]: the requests that are not answered yet.
//! - [`initialize`], [`setup`] (new, load, resume, fork), [`list`], [`manage`] (close, delete), [`options`] (modes and
//!   models), [`prompt`]: one method each, or a few that belong together.
//! - [`session`]: a session that the editor has open. [`replay`]: a stored conversation as updates.
//! - [`known`]: what the editor knows of a session. [`news`]: what other processes did to it.
//! - [`turn`]: a running turn as updates, with [`speech`] for texts, [`tool_calls`], [`permissions`] and
//!   [`compactions`]. [`parked`]: turns that wait for a person since an earlier connection.
//! - [`editor_tools`]: the editor's files and its [`terminal`] as tools; [`mcp_servers`]: servers that it names.
//!   [`call_view`], [`call_board`]: what it is shown of calls.
//! - [`content`]: prompts as messages. [`provenance`]: where a session comes from, by ACP's names. [`commands`]:
//!   `/help` and the others.
//!
//! Nothing but messages of the protocol is written to stdout. Errors never repeat what the editor has sent, because
//! that may have secrets.

mod agent;
mod call_board;
mod call_view;
mod commands;
mod compactions;
mod content;
mod editor;
mod editor_tools;
mod error;
mod in_flight;
mod initialize;
mod known;
mod lines;
mod list;
mod manage;
mod mcp_servers;
mod message;
mod news;
mod options;
mod parked;
mod permissions;
mod prompt;
mod provenance;
mod questions;
mod replay;
mod schema;
mod session;
mod setup;
mod speech;
mod terminal;
mod tool_calls;
mod turn;

pub use agent::{AgentSettings, Streams, serve};

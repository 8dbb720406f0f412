//! Tools that Herma runs: MCP servers behind a small port.
//!
//! A [`Toolbox`] holds the servers of a configuration. It starts a server when a turn may use it, offers its tools,
//! calls them, and ends it. It decides nothing about turns: approvals are asked for, and results are stored and cut,
//! by the caller.
//!
//! - [`settings`]: how a server is reached and who may use it;
//! - [`tool`]: a tool as the model is offered it, and how a call can end;
//! - [`names`]: the names that tools are offered under;
//! - [`offer`]: which of a server's tools are offered, and with which approval;
//! - [`audience`]: whose turns may use a server;
//! - [`server`]: the life of one server; [`starts`]: how often it may be started;
//! - [`toolbox`]: all servers together;
//! - [`secrets`]: keeps configured values out of messages and logs;
//! - [`mcp`]: the only module that knows the MCP library.

mod audience;
mod mcp;
mod names;
mod offer;
mod secrets;
mod server;
mod settings;
mod starts;
mod tool;
mod toolbox;

pub use audience::Audience;
pub use settings::{Approval, ServerSettings, Transport};
pub use tool::{CallEnd, Status, Tool, ToolRow};
pub use toolbox::Toolbox;

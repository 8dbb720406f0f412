//! `herma acp` as an editor sees it: the real binary, driven over stdin and stdout.
#![expect(clippy::unwrap_used, clippy::panic, clippy::needless_pass_by_value, reason = "tests")]

mod compactions;
mod connection;
mod editor_files;
mod editor_terminal;
mod mcp_servers;
mod news;
mod parked;
mod permissions;
mod prompts;
mod sessions;
mod slow_reader;
mod support;
mod told;
mod two_editors;

use support::{Agent, text_of, updates_of};

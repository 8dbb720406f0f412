//! The MCP library behind one door: nothing of it is visible outside this module.
//!
//! A [`Link`] is a connection to a server that has listed its tools; a [`Caller`] calls them. How a server is reached
//! is in [`process`] and [`http`]; what its answers mean in words is in [`result`] and [`failure`].

mod failure;
mod handler;
mod http;
mod lines;
mod link;
mod list;
mod notes;
mod process;
mod result;
mod subscription;

pub(crate) use link::{Caller, Link};

/// The largest message that is read from a server.
const LARGEST_MESSAGE: usize = 8 * 1024 * 1024;
/// The error that takes the place of a larger message, so that its request ends at once.
const TOO_LARGE: &str = "the result was too large";
const TOO_LARGE_CODE: i32 = -32_098;

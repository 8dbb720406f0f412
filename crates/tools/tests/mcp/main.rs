//! The toolbox against real servers: child processes and HTTP.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod calls;
mod http;
mod lifecycle;
mod listing;
mod support;

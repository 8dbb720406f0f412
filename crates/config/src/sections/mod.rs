//! The settings, one file for each section: fields, defaults, checks, and the comments of `herma config`.

pub(crate) mod admission;
pub(crate) mod budgets;
pub(crate) mod compaction;
pub(crate) mod headers;
pub(crate) mod jobs;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod models;
pub(crate) mod responses;
pub(crate) mod retention;
pub(crate) mod server;
pub(crate) mod store;
pub(crate) mod telemetry;
pub(crate) mod titles;
pub(crate) mod tools;
pub(crate) mod upstream;

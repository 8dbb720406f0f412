//! The routes: a folder per resource, a file per verb.

pub(crate) mod capabilities;
pub(crate) mod chat;
pub(crate) mod conversations;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod home;
pub(crate) mod memories;
pub(crate) mod metrics;
pub(crate) mod models;
pub(crate) mod openapi;
pub(crate) mod pass_on;
pub(crate) mod responses;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod tools;

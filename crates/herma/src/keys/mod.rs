//! `herma keys`: one file per verb.

pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod revoke;

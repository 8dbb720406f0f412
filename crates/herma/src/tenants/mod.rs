//! `herma tenants`: one file per verb. No client can ask for these, so they use the store itself.

pub(crate) mod delete;
pub(crate) mod list;

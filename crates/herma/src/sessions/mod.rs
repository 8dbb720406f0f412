//! `herma sessions`: one file per verb, on the local store; no server is needed.
//!
//! - [`place`]: the store, the tenant, and a gateway of its own.
//! - [`preview`]: what a dry run shows.

pub(crate) mod compact;
pub(crate) mod compactions;
pub(crate) mod place;
mod preview;
pub(crate) mod undo;

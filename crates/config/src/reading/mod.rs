//! Reads given values as typed settings. Each error names the key and the origin.

pub(crate) mod given;
pub(crate) mod nearest;
pub(crate) mod path;
pub(crate) mod section;
pub(crate) mod setting;
mod unknown;

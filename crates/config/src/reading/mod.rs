//! Reading settings: from values as given to typed ones, with the key and the origin in every refusal.

pub(crate) mod given;
pub(crate) mod nearest;
pub(crate) mod path;
pub(crate) mod section;
pub(crate) mod setting;
mod unknown;

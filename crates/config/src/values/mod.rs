//! The types of single settings: each parses itself, says what is allowed, and prints what it would parse again.

pub(crate) mod fraction;
pub(crate) mod http_url;
pub(crate) mod keep;
pub(crate) mod listen;
pub(crate) mod secret;
pub(crate) mod span;
pub(crate) mod store_url;
pub(crate) mod web_origin;

//! The types of single settings. Each parses text, says what is allowed, and prints text that it can parse again.

pub(crate) mod base_url;
pub(crate) mod fraction;
pub(crate) mod header_name;
pub(crate) mod http_url;
pub(crate) mod keep;
pub(crate) mod listen;
pub(crate) mod secret;
pub(crate) mod span;
pub(crate) mod store_url;
pub(crate) mod web_origin;

//! The sources of a configuration, in order: flags, variables, the file.

mod data_dir;
mod environment;
mod file;
mod load;
pub(crate) mod notices;
mod otel;
mod overrides;

pub use load::{Loaded, load};
pub use overrides::Overrides;

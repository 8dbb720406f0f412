//! What an operator can set: typed sections, one file each, read from `herma.toml`, the environment and flags.
//!
//! Flags win over `HERMA_*` variables, those over the file, the file over defaults. This crate reads at most
//! one file and nothing else: the environment is passed in, nothing is printed, no runtime is known. It keeps
//! two promises: a value that reaches a [`Config`] is valid, and no secret reaches a message, `Debug` or
//! [`Config::to_toml`].
//!
//! - [`load`]: from the outside to a [`Loaded`] configuration.
//! - `sections`: what can be set, with defaults, checks and the comments of `herma config`.
//! - `values`: the types of single settings, and how each is written.
//! - `reading`: a section's reader, which knows where every value came from and which keys nobody asked for.
//! - `loading`: the sources themselves.

mod config;
mod error;
mod loading;
mod page;
mod reading;
mod sections;
mod values;

pub use config::Config;
pub use error::{ConfigError, Origin};
pub use loading::{Loaded, Overrides, load};
pub use sections::admission::AdmissionConfig;
pub use sections::compaction::{CompactionConfig, CompactionMode};
pub use sections::jobs::JobsConfig;
pub use sections::memory::{MemoryConfig, MemoryProvider};
pub use sections::models::{ModelConfig, ModelsConfig};
pub use sections::retention::RetentionConfig;
pub use sections::server::ServerConfig;
pub use sections::store::StoreConfig;
pub use sections::telemetry::{LogFormat, TelemetryConfig};
pub use sections::titles::{TitleMaker, TitlesConfig};
pub use sections::tools::{McpServer, ToolsConfig};
pub use sections::upstream::UpstreamConfig;
pub use values::fraction::Fraction;
pub use values::http_url::HttpUrl;
pub use values::keep::Keep;
pub use values::listen::ListenAddress;
pub use values::secret::Secret;
pub use values::store_url::StoreUrl;
pub use values::web_origin::WebOrigin;

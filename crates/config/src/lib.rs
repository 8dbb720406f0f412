//! The settings of an operator, read from `herma.toml`, the environment and flags into typed sections.
//!
//! Flags win over `HERMA_*` variables, variables over the file, the file over defaults. This crate reads at most one
//! file. The caller passes the environment in. The crate prints nothing and knows no runtime.
//!
//! Two invariants hold. Every value in a [`Config`] is valid. No secret appears in a message, in `Debug` or in
//! [`Config::to_toml`].
//!
//! - [`load`]: reads all sources into a [`Loaded`] configuration.
//! - `sections`: the settings, with defaults, checks and the comments of `herma config`.
//! - `model_server`: how each model server is reached, from several sections.
//! - `values`: the types of single settings, and how each is written.
//! - `reading`: reads a section, records where each value came from, and finds unknown keys.
//! - `loading`: the sources.

mod config;
mod error;
mod loading;
mod model_server;
mod page;
mod reading;
mod sections;
mod values;

pub use config::Config;
pub use error::{ConfigError, Origin};
pub use loading::{Loaded, Overrides, load};
pub use model_server::ModelServerConfig;
pub use sections::admission::AdmissionConfig;
pub use sections::budgets::BudgetsConfig;
pub use sections::compaction::{CompactionConfig, CompactionMode};
pub use sections::headers::Headers;
pub use sections::jobs::JobsConfig;
pub use sections::mcp::{McpServer, McpTransport, ToolApproval};
pub use sections::memory::{MemoryConfig, MemoryProvider};
pub use sections::models::{ModelConfig, ModelsConfig, PriceConfig};
pub use sections::responses::{HostedTools, ResponsesConfig};
pub use sections::retention::RetentionConfig;
pub use sections::server::ServerConfig;
pub use sections::store::StoreConfig;
pub use sections::telemetry::{ExportLimits, ExportedSignal, LogFormat, TelemetryConfig};
pub use sections::titles::{TitleMaker, TitlesConfig};
pub use sections::tools::{BuiltInTool, DelegateConfig, ToolsConfig};
pub use sections::upstream::UpstreamConfig;
pub use values::base_url::BaseUrl;
pub use values::fraction::Fraction;
pub use values::header_name::HeaderNameText;
pub use values::http_url::HttpUrl;
pub use values::keep::Keep;
pub use values::listen::ListenAddress;
pub use values::secret::Secret;
pub use values::span::parse as parse_duration;
pub use values::store_url::StoreUrl;
pub use values::web_origin::WebOrigin;

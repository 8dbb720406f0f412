//! `[telemetry]`: logs and traces.

use crate::error::ConfigError;
use crate::page::Page;
use crate::reading::section::Section;
use crate::reading::setting::words;
use crate::values::http_url::HttpUrl;

words!(
    /// How a line of the log is written.
    LogFormat: r#""text" or "json""# {
        /// For people.
        Text = "text",
        /// One JSON object per line, for programs.
        Json = "json",
    }
);

/// Logs and traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The log filter, as directives of the tracing crate: `info`, `herma=debug,warn`.
    pub log: String,
    /// How a line of the log is written.
    pub format: LogFormat,
    /// Where traces are sent, without a slash at the end. `None` sends no traces.
    pub otlp_endpoint: Option<HttpUrl>,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { log: "info".to_owned(), format: LogFormat::Text, otlp_endpoint: None }
    }
}

impl TelemetryConfig {
    pub(crate) fn read(section: &mut Section) -> Result<Self, ConfigError> {
        let default = Self::default();
        Ok(Self {
            log: section.or("log", default.log)?,
            format: section.or("format", default.format)?,
            otlp_endpoint: section.read::<HttpUrl>("otlp_endpoint")?.map(|url| url.trimmed()),
        })
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.heading(&["telemetry"], "Logs and traces.");
        page.set("log", self.log.as_str(), "What is logged: a level, or directives such as \"herma=debug,warn\".");
        page.set("format", self.format.as_str(), "How a line of the log is written: \"text\" or \"json\".");
        page.maybe(
            "otlp_endpoint",
            self.otlp_endpoint.as_ref().map(HttpUrl::as_str),
            "http://localhost:4317",
            "Where traces are sent.",
        );
    }
}

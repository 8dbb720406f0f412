//! A tool that Herma runs, as `GET /v1/tools` lists it.

use serde::Serialize;
use serde_json::value::RawValue;

/// One row: a tool, or a server that shows no tools. What does not apply is absent.
#[derive(Debug, Clone, Serialize)]
pub struct ToolRow<'a> {
    /// The name that the model sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'a str>,
    /// The label of its server.
    pub server: &'a str,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<&'a str>,
    /// What it takes, as a JSON schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<&'a RawValue>,
    /// `auto`, `ask` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<&'a str>,
    /// `ready`, `starting`, `failed` or `idle`.
    pub status: &'a str,
    /// Why the server could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

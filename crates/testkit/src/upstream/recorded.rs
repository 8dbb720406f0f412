//! A request as the server received it.

use bytes::Bytes;
use hyper::{HeaderMap, Uri};
use serde_json::Value;

/// One request. If the body is not JSON, `body` is `Null` and `raw` has the bytes.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The path of the request.
    pub path: String,
    /// The query of the request, without its question mark.
    pub query: Option<String>,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it was sent.
    pub raw: Bytes,
    /// The body as JSON.
    pub body: Value,
}

impl Recorded {
    pub(super) fn new(uri: &Uri, headers: HeaderMap, raw: Bytes) -> Self {
        let body = serde_json::from_slice(&raw).unwrap_or(Value::Null);
        Self { path: uri.path().to_owned(), query: uri.query().map(str::to_owned), headers, raw, body }
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The messages of the request.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// `role: text` of each message, a short form for comparisons.
    pub fn transcript(&self) -> Vec<String> {
        self.messages()
            .iter()
            .map(|message| format!("{}: {}", message["role"].as_str().unwrap_or("?"), text_of(message)))
            .collect()
    }

    /// The text of the newest user message, empty if there is none.
    pub fn last_user_text(&self) -> String {
        self.messages().iter().rev().find(|message| message["role"] == "user").map(text_of).unwrap_or_default()
    }

    /// Whether the request asks for a stream.
    pub fn wants_stream(&self) -> bool {
        self.body["stream"] == true
    }

    /// Whether the request asks for a usage chunk at the end of the stream.
    pub fn wants_usage(&self) -> bool {
        self.body["stream_options"]["include_usage"] == true
    }

    /// The model that the request names, or `scripted`.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or("scripted")
    }
}

/// The text of a message, whether its content is a string or a list of parts.
fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

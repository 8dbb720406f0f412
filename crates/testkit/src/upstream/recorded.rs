//! A request as it arrived.

use bytes::Bytes;
use hyper::HeaderMap;
use serde_json::Value;

/// One chat request. A body that is not JSON is recorded as `Null` beside its raw bytes.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Where it was sent to.
    pub path: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it was sent.
    pub raw: Bytes,
    /// The body as JSON.
    pub body: Value,
}

impl Recorded {
    pub(super) fn new(path: String, headers: HeaderMap, raw: Bytes) -> Self {
        let body = serde_json::from_slice(&raw).unwrap_or(Value::Null);
        Self { path, headers, raw, body }
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The messages of the request.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// `role: text` of each message, the shortest form of a transcript to compare.
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

    /// Whether a stream was asked for.
    pub fn wants_stream(&self) -> bool {
        self.body["stream"] == true
    }

    /// Whether the stream is to end with a usage chunk.
    pub fn wants_usage(&self) -> bool {
        self.body["stream_options"]["include_usage"] == true
    }

    /// The model asked for.
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

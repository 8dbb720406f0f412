//! The request fields that a response object repeats.

use crate::json::{Object, Writer};

/// Every field that is repeated, and its default.
const FIELDS: [(&str, &str); 21] = [
    ("instructions", "null"),
    ("metadata", "{}"),
    ("tools", "[]"),
    ("tool_choice", "\"auto\""),
    ("parallel_tool_calls", "true"),
    ("text", r#"{"format":{"type":"text"}}"#),
    ("reasoning", r#"{"effort":null,"summary":null}"#),
    ("temperature", "1.0"),
    ("top_p", "1.0"),
    ("presence_penalty", "0.0"),
    ("frequency_penalty", "0.0"),
    ("top_logprobs", "0"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("truncation", "\"disabled\""),
    ("store", "true"),
    ("background", "false"),
    ("service_tier", "\"default\""),
    ("prompt_cache_key", "null"),
    ("safety_identifier", "null"),
    ("user", "null"),
];

/// The fields of a request that its response repeats, in the form the response has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Echo(Vec<(&'static str, Box<str>)>);

impl Echo {
    /// The form that is stored with the turn. It has only the fields that the request had.
    pub fn to_json(&self) -> String {
        let mut writer = Writer::with_capacity(64);
        writer.open_object();
        for (name, json) in &self.0 {
            writer.raw_field(name, json);
        }
        writer.close_object();
        writer.into_text()
    }

    /// Reads [`Self::to_json`] back. Unknown fields are ignored. `None` if the text is not a JSON object.
    pub fn from_json(json: &str) -> Option<Self> {
        let mut object = Object::from_text(json).ok()?;
        let said = FIELDS.iter().filter_map(|(name, _)| Some((*name, Box::from(object.take(name)?.get()))));
        Some(Self(said.collect()))
    }

    /// Whether the response runs in the background.
    pub fn background(&self) -> bool {
        self.get("background") == Some("true")
    }

    /// Adds a field. A field that no response has is ignored.
    pub(super) fn add(&mut self, name: &str, json: impl Into<Box<str>>) {
        if let Some((name, _)) = FIELDS.iter().find(|(field, _)| *field == name) {
            self.0.push((name, json.into()));
        }
    }

    /// Puts the fields into the order in which they are written and read back.
    pub(super) fn in_order(mut self) -> Self {
        self.0.sort_by_key(|(name, _)| FIELDS.iter().position(|(field, _)| field == name));
        self
    }

    /// Writes every field, with defaults for absent ones.
    pub(super) fn write(&self, writer: &mut Writer) {
        for (name, otherwise) in FIELDS {
            writer.raw_field(name, self.get(name).unwrap_or(otherwise));
        }
    }

    /// The value that the request had for a field, as JSON.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(field, _)| *field == name).map(|(_, json)| &**json)
    }
}

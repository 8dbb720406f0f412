//! Values that are serialised as text: names are parsed by their own rules, JSON is copied unchanged.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// Whether a character must not appear in a line that people read: it ends the line, changes the direction of the text,
/// or controls a terminal.
pub fn breaks_a_line(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Deserialises a text by this parse function.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    let text = Cow::<str>::deserialize(deserializer)?;
    parse(&text).map_err(D::Error::custom)
}

/// Writes JSON text into other JSON, byte for byte.
pub(crate) fn serialize_json<S: Serializer>(json: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::from_str::<&RawValue>(json).map_err(S::Error::custom)?.serialize(serializer)
}

/// Reads JSON out of other JSON as text, byte for byte.
pub(crate) fn deserialize_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(|json| Arc::from(json.get()))
}

/// The same for an optional value.
pub(crate) mod optional_json {
    use super::{Arc, Deserializer, Serializer, deserialize_json, serialize_json};

    pub(crate) fn serialize<S: Serializer>(json: &Option<Arc<str>>, serializer: S) -> Result<S::Ok, S::Error> {
        match json {
            Some(json) => serialize_json(json, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
        deserialize_json(deserializer).map(Some)
    }
}

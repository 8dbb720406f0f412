//! Reads one chunk of a streamed answer. It does not copy fields that are dropped or equal in every chunk.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::extra::{is_bookkeeping, keep};
use super::text::Text;

/// A string that borrows from the chunk if it can.
#[derive(Debug, Deserialize)]
pub(super) struct Name<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// A chunk as it was sent.
#[derive(Debug, Default)]
pub(super) struct Chunk<'a> {
    pub(super) model: Option<Cow<'a, str>>,
    /// `None` if the object has no `choices`. Then it is not a chunk.
    pub(super) choices: Option<Vec<Choice<'a>>>,
    pub(super) usage: Value,
    pub(super) error: Value,
    pub(super) extra: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// A choice of a chunk.
#[derive(Debug, Default)]
pub(super) struct Choice<'a> {
    pub(super) index: u64,
    pub(super) delta: WireDelta<'a>,
    pub(super) finish_reason: Option<Cow<'a, str>>,
    pub(super) extra: Map<String, Value>,
}

/// A delta as it was sent. Its tool calls are not yet assigned to indexes.
#[derive(Debug, Default)]
pub(super) struct WireDelta<'a> {
    pub(super) content: Option<Cow<'a, str>>,
    pub(super) refusal: Option<Cow<'a, str>>,
    pub(super) calls: Vec<Map<String, Value>>,
    pub(super) extra: Map<String, Value>,
}

/// Implements `Deserialize` field by field. It is a macro because the fields borrow from what was sent.
macro_rules! read_object {
    ($target:ty, $what:literal, |$self:ident, $field:ident, $map:ident| $body:block) => {
        impl<'de: 'a, 'a> Deserialize<'de> for $target {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields<'a>(std::marker::PhantomData<&'a ()>);
                impl<'de: 'a, 'a> Visitor<'de> for Fields<'a> {
                    type Value = $target;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($what)
                    }

                    fn visit_unit<E>(self) -> Result<Self::Value, E> {
                        Ok(Self::Value::default())
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut $map: A) -> Result<Self::Value, A::Error> {
                        let mut $self = Self::Value::default();
                        while let Some(Name($field)) = $map.next_key()? {
                            $body
                        }
                        Ok($self)
                    }
                }
                deserializer.deserialize_any(Fields(std::marker::PhantomData))
            }
        }
    };
}
pub(super) use read_object;

read_object!(Chunk<'a>, "a chunk object", |chunk, field, map| {
    match &*field {
        "model" => chunk.model = map.next_value::<Option<Name<'a>>>()?.map(|name| name.0),
        "choices" => chunk.choices = map.next_value()?,
        "usage" => chunk.usage = map.next_value()?,
        "error" => chunk.error = map.next_value()?,
        name if is_bookkeeping(name) => drop(map.next_value::<IgnoredAny>()?),
        _ => chunk.extra.push((field, map.next_value()?)),
    }
});

read_object!(Choice<'a>, "a choice object", |choice, field, map| {
    match &*field {
        "index" => choice.index = map.next_value::<Option<u64>>()?.unwrap_or(0),
        "delta" => choice.delta = map.next_value()?,
        "finish_reason" => choice.finish_reason = map.next_value::<Option<Name<'a>>>()?.map(|name| name.0),
        name => keep(&mut choice.extra, name, map.next_value()?),
    }
});

read_object!(WireDelta<'a>, "a delta object", |delta, field, map| {
    match &*field {
        "role" => drop(map.next_value::<IgnoredAny>()?),
        "content" => delta.content = map.next_value::<Text<'a>>()?.0,
        "refusal" => delta.refusal = map.next_value::<Text<'a>>()?.0,
        "tool_calls" => delta.calls = map.next_value::<Option<Vec<_>>>()?.unwrap_or_default(),
        name => {
            let value = map.next_value::<Value>()?;
            if value != "" {
                keep(&mut delta.extra, name, value);
            }
        }
    }
});

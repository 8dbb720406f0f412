//! Objects, arrays and strings borrowed from the request body.
//!
//! Reading is shallow: nested values stay [`RawValue`]s and are never walked recursively. So nesting costs nothing
//! until a caller reads the value. Counts are bounded, so that a small body cannot become a large structure. The one
//! exception is [`super::list`]: the long list of a request is read together with the request.

use std::borrow::Cow;
use std::fmt;

use herma_model::limits::MAX_REQUEST_MESSAGES;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::bad_request::Flaw;

/// The largest number of fields in an object that Herma reads.
const MAX_FIELDS: usize = 128;
/// The largest number of elements in an array that Herma reads.
pub(super) const MAX_ELEMENTS: usize = MAX_REQUEST_MESSAGES;

/// The fields of an object in the order they came. If a field is repeated, the last one counts. A null field counts as
/// absent.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Reads text that may not be JSON.
    pub(crate) fn from_text(text: &'a str) -> Result<Self, Flaw> {
        let fields: Fields<'a> = serde_json::from_str(text).map_err(|error| no_object(&error))?;
        Self::of(fields)
    }

    /// The object with these fields.
    pub(super) fn of(fields: Fields<'a>) -> Result<Self, Flaw> {
        if fields.too_many {
            return Err(Flaw::new(format!("must not have more than {MAX_FIELDS} fields")));
        }
        let mut fields = fields.entries;
        fields.retain(|(_, value)| value.get() != "null");
        Ok(Self { fields })
    }

    /// The memory of its fields, for the fields of another object.
    pub(super) fn into_memory(self) -> Vec<(Cow<'a, str>, &'a RawValue)> {
        let mut fields = self.fields;
        fields.clear();
        fields
    }

    /// Reads a value that is known to be JSON.
    pub(crate) fn read(raw: &'a RawValue) -> Result<Self, Flaw> {
        if !raw.get().starts_with('{') {
            return Err(Flaw::new("must be an object"));
        }
        Self::from_text(raw.get())
    }

    /// Takes a field out. [`Self::rest`] has the fields that were never taken.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.fields.iter().position(|(key, _)| key == name)?;
        Some(self.fields.remove(at).1)
    }

    /// Gives a field another name. Returns false if the object has fields of both names.
    pub(crate) fn rename(&mut self, name: &str, new: &'static str) -> bool {
        if self.fields.iter().any(|(key, _)| key == new) {
            return !self.fields.iter().any(|(key, _)| key == name);
        }
        if let Some((key, _)) = self.fields.iter_mut().find(|(key, _)| key == name) {
            *key = Cow::Borrowed(new);
        }
        true
    }

    /// Takes out a field that must be a string. `None` if it is absent.
    pub(crate) fn take_text(&mut self, name: &str) -> Result<Option<Cow<'a, str>>, Flaw> {
        self.take(name).map(|raw| text(raw).map_err(|flaw| flaw.within(name))).transpose()
    }

    /// Takes out a required string that must not be empty.
    pub(crate) fn take_name(&mut self, name: &str) -> Result<Cow<'a, str>, Flaw> {
        match self.take_text(name)? {
            Some(text) if !text.is_empty() => Ok(text),
            Some(_) => Err(Flaw::at(name, "must not be empty")),
            None => Err(Flaw::at(name, "is required")),
        }
    }

    /// The fields that were not taken.
    pub(crate) fn rest(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.fields.iter().map(|(key, value)| (&**key, *value))
    }
}

/// The elements of an array.
pub(crate) fn elements(raw: &RawValue) -> Result<Vec<&RawValue>, Flaw> {
    if !raw.get().starts_with('[') {
        return Err(Flaw::new("must be an array"));
    }
    let elements: Elements<'_> = serde_json::from_str(raw.get()).map_err(|error| Flaw::new(error.to_string()))?;
    if elements.too_many {
        return Err(too_many_elements());
    }
    Ok(elements.values)
}

pub(super) fn too_many_elements() -> Flaw {
    Flaw::new(format!("must not have more than {MAX_ELEMENTS} elements"))
}

/// Reads a string. It is borrowed unless it has escapes.
pub(crate) fn text(raw: &RawValue) -> Result<Cow<'_, str>, Flaw> {
    if !raw.get().starts_with('"') {
        return Err(Flaw::new("must be a string"));
    }
    // The text is known to be JSON, so this fails only for half of a surrogate pair.
    let Text(text) = serde_json::from_str(raw.get()).map_err(|_| Flaw::new("has an escape that is not Unicode"))?;
    Ok(text)
}

/// Reads a boolean.
pub(crate) fn flag(raw: &RawValue) -> Result<bool, Flaw> {
    match raw.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Flaw::new("must be true or false")),
    }
}

/// Says why a text is not an object.
pub(super) fn no_object(error: &serde_json::Error) -> Flaw {
    match error.classify() {
        serde_json::error::Category::Data => Flaw::new("must be a JSON object"),
        _ => Flaw::new(format!("is not valid JSON: {error}")),
    }
}

/// The fields of an object that is being read.
#[derive(Default)]
pub(super) struct Fields<'a> {
    entries: Vec<(Cow<'a, str>, &'a RawValue)>,
    too_many: bool,
}

impl<'a> Fields<'a> {
    /// No fields yet. They go into this memory, which must be empty.
    pub(super) const fn into(entries: Vec<(Cow<'a, str>, &'a RawValue)>) -> Self {
        Self { entries, too_many: false }
    }

    /// Reads the value of a field. After too many fields, the values of all others are dropped.
    pub(super) fn read<A: MapAccess<'a>>(&mut self, key: Cow<'a, str>, map: &mut A) -> Result<(), A::Error> {
        if self.too_many {
            return map.next_value::<IgnoredAny>().map(drop);
        }
        let value = map.next_value()?;
        if let Some(known) = self.entries.iter_mut().find(|(name, _)| *name == key) {
            known.1 = value;
        } else if self.entries.len() < MAX_FIELDS {
            self.entries.push((key, value));
        } else {
            self.too_many = true;
        }
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Fields::into(Vec::with_capacity(8));
                while let Some(Text(key)) = map.next_key()? {
                    fields.read(key, &mut map)?;
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Read)
    }
}

struct Elements<'a> {
    values: Vec<&'a RawValue>,
    too_many: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for Elements<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Elements<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = seq.next_element()? {
                    if values.len() == MAX_ELEMENTS {
                        while seq.next_element::<IgnoredAny>()?.is_some() {}
                        return Ok(Elements { values, too_many: true });
                    }
                    values.push(value);
                }
                Ok(Elements { values, too_many: false })
            }
        }
        deserializer.deserialize_seq(Read)
    }
}

/// A string that borrows where it can. Serde's own `Cow<str>` is always owned.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<'a>(object: &'a Object<'_>) -> Vec<&'a str> {
        object.rest().map(|(name, _)| name).collect()
    }

    #[test]
    fn of_a_repeated_field_the_last_one_counts_even_when_it_is_null() {
        let mut object = Object::from_text(r#"{"a":1,"b":2,"a":3,"b":null,"\u0063":4}"#).unwrap();
        assert_eq!(names(&object), ["a", "c"]);
        assert_eq!(object.take("a").unwrap().get(), "3");
    }

    #[test]
    fn a_body_full_of_tiny_fields_is_refused() {
        let body = (0..300).map(|n| format!("\"{n}\":0")).collect::<Vec<_>>().join(",");
        let flaw = Object::from_text(&format!("{{{body}}}")).unwrap_err();
        assert!(format!("{flaw:?}").contains("128"));
    }

    #[test]
    fn half_a_surrogate_pair_is_not_text() {
        let raw: &RawValue = serde_json::from_str(r#""\ud83d""#).unwrap();
        assert!(text(raw).is_err());
    }
}

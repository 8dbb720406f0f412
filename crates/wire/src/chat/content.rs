//! The `content` of a message: a string, or an array of parts.
//!
//! Parts are passed on as they came. Herma reads only the parts that it knows.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::identity::Identity;
use crate::bad_request::Flaw;
use crate::json::{Object, Writer, compact, elements, normal_form, text};

/// Checks a content, adds it to the message's identity, and returns its canonical JSON.
///
/// An empty array counts as an empty text.
pub(super) fn read<'a>(raw: &'a RawValue, identity: &mut Identity<'a>) -> Result<Cow<'a, str>, Flaw> {
    match raw.get().as_bytes().first() {
        Some(b'"') => {
            let text = text(raw)?;
            let json = quoted(raw, &text);
            identity.text(text);
            Ok(json)
        }
        Some(b'[') => parts(raw, identity),
        _ => Err(Flaw::new("must be a string or an array of parts")),
    }
}

/// The JSON of a text. What the client wrote is used if it has no escapes, because then there is only one way to write
/// it.
fn quoted<'a>(raw: &'a RawValue, text: &Cow<'a, str>) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(_) => Cow::Borrowed(raw.get()),
        Cow::Owned(text) => {
            let mut writer = Writer::with_capacity(raw.get().len());
            writer.text(text);
            Cow::Owned(writer.into_text())
        }
    }
}

fn parts<'a>(raw: &'a RawValue, identity: &mut Identity<'a>) -> Result<Cow<'a, str>, Flaw> {
    let parts = elements(raw)?;
    if parts.is_empty() {
        return Ok(Cow::Borrowed("\"\""));
    }
    for (index, part) in parts.into_iter().enumerate() {
        read_part(part, identity).map_err(|flaw| flaw.element(index))?;
    }
    compact(raw)
}

fn read_part<'a>(raw: &'a RawValue, identity: &mut Identity<'a>) -> Result<(), Flaw> {
    let mut part = Object::read(raw)?;
    let kind = part.take_name("type")?;
    match &*kind {
        "text" => identity.text(required_text(&mut part, "text")?),
        "refusal" => identity.refusal(&required_text(&mut part, "refusal")?),
        "image_url" => {
            let image = part.take("image_url").ok_or_else(|| Flaw::at("image_url", "is required"))?;
            let url = Object::read(image).and_then(|mut image| image.take_name("url"));
            identity.image(&url.map_err(|flaw| flaw.within("image_url"))?);
        }
        _ => identity.other(&normal_form(raw)?),
    }
    Ok(())
}

fn required_text<'a>(part: &mut Object<'a>, name: &str) -> Result<Cow<'a, str>, Flaw> {
    part.take_text(name)?.ok_or_else(|| Flaw::at(name, "is required"))
}

/// The text of a stored content, with its text parts joined.
pub(super) fn stored_text(raw: &RawValue) -> String {
    if raw.get().starts_with('"') {
        return text(raw).map(String::from).unwrap_or_default();
    }
    let mut whole = String::new();
    for part in elements(raw).unwrap_or_default() {
        if let Ok(Some(text)) = Object::read(part).and_then(|mut part| part.take_text("text")) {
            whole.push_str(&text);
        }
    }
    whole
}

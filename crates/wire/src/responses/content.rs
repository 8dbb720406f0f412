//! Translates the parts of an item's content to chat parts.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::bad_request::Flaw;
use crate::json::{Object, Writer, compact, elements, text};

/// One part.
pub(super) enum ChatPart<'a> {
    Text(Cow<'a, str>),
    Refusal(Cow<'a, str>),
    /// A chat part as JSON.
    Other(String),
}

/// Reads the parts of a content. A string is one text.
pub(super) fn parts(raw: &RawValue) -> Result<Vec<ChatPart<'_>>, Flaw> {
    match raw.get().as_bytes().first() {
        Some(b'"') => Ok(vec![ChatPart::Text(text(raw)?)]),
        Some(b'[') => {
            let parts = elements(raw)?.into_iter().enumerate();
            parts.map(|(index, part)| read(part).map_err(|flaw| flaw.element(index))).collect()
        }
        _ => Err(Flaw::new("must be a string or an array of parts")),
    }
}

/// The content of a chat message. A single text becomes a string, because many model servers accept nothing else.
pub(super) fn chat_content(parts: &[ChatPart<'_>]) -> String {
    let mut writer = Writer::with_capacity(128);
    if let [ChatPart::Text(text)] = parts {
        writer.value(text);
        return writer.into_text();
    }
    writer.open_array();
    for part in parts {
        match part {
            ChatPart::Text(text) => write_text("text", text, &mut writer),
            ChatPart::Refusal(refusal) => write_text("refusal", refusal, &mut writer),
            ChatPart::Other(json) => writer.raw(json),
        }
    }
    writer.close_array();
    writer.into_text()
}

fn write_text(kind: &str, text: &str, writer: &mut Writer) {
    writer.open_object();
    writer.field("type", kind);
    writer.field(kind, text);
    writer.close_object();
}

fn read(raw: &RawValue) -> Result<ChatPart<'_>, Flaw> {
    let mut part = Object::read(raw)?;
    let kind = part.take_name("type")?;
    match &*kind {
        "input_text" | "output_text" | "text" => required(&mut part, "text").map(ChatPart::Text),
        "refusal" => required(&mut part, "refusal").map(ChatPart::Refusal),
        "input_image" => image(part).map(ChatPart::Other),
        "input_file" => file(part).map(ChatPart::Other),
        "input_audio" => audio(part).map(ChatPart::Other),
        _ => Err(Flaw::at("type", "must be input_text, output_text, input_image, input_file, input_audio or refusal")),
    }
}

fn required<'a>(part: &mut Object<'a>, name: &str) -> Result<Cow<'a, str>, Flaw> {
    part.take_text(name)?.ok_or_else(|| Flaw::at(name, "is required"))
}

fn image(mut part: Object<'_>) -> Result<String, Flaw> {
    if part.take("file_id").is_some() {
        return Err(Flaw::at("file_id", "is not supported: send the image as image_url"));
    }
    let url = part.take_name("image_url")?;
    let detail = part.take_text("detail")?;
    Ok(part_of("image_url", [("url", Some(url)), ("detail", detail)]))
}

fn file(mut part: Object<'_>) -> Result<String, Flaw> {
    if part.take("file_url").is_some() {
        return Err(Flaw::at("file_url", "is not supported: send the file as file_data"));
    }
    let (id, data, name) = (part.take_text("file_id")?, part.take_text("file_data")?, part.take_text("filename")?);
    if id.is_none() && data.is_none() {
        return Err(Flaw::at("file_data", "is required"));
    }
    Ok(part_of("file", [("file_id", id), ("filename", name), ("file_data", data)]))
}

fn audio(mut part: Object<'_>) -> Result<String, Flaw> {
    let raw = part.take("input_audio").ok_or_else(|| Flaw::at("input_audio", "is required"))?;
    Object::read(raw).map_err(|flaw| flaw.within("input_audio"))?;
    let json = compact(raw).map_err(|flaw| flaw.within("input_audio"))?;
    Ok(format!(r#"{{"type":"input_audio","input_audio":{json}}}"#))
}

/// A chat part. Its fields are in an object under the name of its type.
fn part_of<const N: usize>(kind: &str, fields: [(&str, Option<Cow<'_, str>>); N]) -> String {
    let mut writer = Writer::with_capacity(128);
    writer.open_object();
    writer.field("type", kind);
    writer.key(kind);
    writer.open_object();
    for (name, value) in fields {
        if let Some(value) = value {
            writer.field(name, &value);
        }
    }
    writer.close_object();
    writer.close_object();
    writer.into_text()
}

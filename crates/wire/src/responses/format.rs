//! The form of the answer: `text` and `reasoning`.

use serde_json::value::RawValue;

use super::params::RequestFields;
use crate::bad_request::Flaw;
use crate::chat::begins;
use crate::json::{Object, Writer, compact, flag};

/// Reads `text`.
pub(super) fn text(raw: &RawValue, fields: &mut RequestFields) -> Result<(), Flaw> {
    let mut text = Object::read(raw)?;
    let mut echo = Writer::with_capacity(raw.get().len() + 32);
    echo.open_object();
    match text.take("format") {
        Some(raw) => {
            let format = format(raw).map_err(|flaw| flaw.within("format"))?;
            echo.raw_field("format", &format.echo);
            if let Some(chat) = format.chat {
                fields.pass("response_format", chat);
            }
        }
        None => echo.raw_field("format", r#"{"type":"text"}"#),
    }
    if let Some(verbosity) = text.take_text("verbosity")? {
        echo.field("verbosity", &verbosity);
        fields.pass_text("verbosity", &verbosity);
    }
    echo.close_object();
    fields.echo.add("text", echo.into_text());
    Ok(())
}

/// A format, for the model server and for the echo. For plain text the model server gets none.
struct Format {
    chat: Option<String>,
    echo: String,
}

fn format(raw: &RawValue) -> Result<Format, Flaw> {
    let mut format = Object::read(raw)?;
    let plain = |kind: &str| format!(r#"{{"type":"{kind}"}}"#);
    match &*format.take_name("type")? {
        "text" => Ok(Format { chat: None, echo: plain("text") }),
        "json_object" => Ok(Format { chat: Some(plain("json_object")), echo: plain("json_object") }),
        "json_schema" => json_schema(format),
        _ => Err(Flaw::at("type", "must be text, json_object or json_schema")),
    }
}

fn json_schema(mut format: Object<'_>) -> Result<Format, Flaw> {
    let name = format.take_name("name")?;
    let description = format.take_text("description")?;
    let strict = format.take("strict").map(|raw| flag(raw).map_err(|flaw| flaw.within("strict"))).transpose()?;
    let schema = format.take("schema").ok_or_else(|| Flaw::at("schema", "is required"))?;
    let schema = begins(schema, "{", "must be an object").and_then(|()| compact(schema));
    let schema = schema.map_err(|flaw| flaw.within("schema"))?;
    let mut writer = Writer::with_capacity(schema.len() + 128);
    writer.open_object();
    writer.field("type", "json_schema");
    writer.key("json_schema");
    writer.open_object();
    writer.field("name", &name);
    if let Some(description) = &description {
        writer.field("description", description);
    }
    writer.raw_field("schema", &schema);
    if let Some(strict) = strict {
        writer.field("strict", &strict);
    }
    writer.close_object();
    writer.close_object();
    let mut echo = Writer::with_capacity(schema.len() + 128);
    echo.open_object();
    echo.field("type", "json_schema");
    echo.field("name", &name);
    echo.field("description", &description);
    echo.raw_field("schema", &schema);
    echo.field("strict", &strict.unwrap_or_default());
    echo.close_object();
    Ok(Format { chat: Some(writer.into_text()), echo: echo.into_text() })
}

/// Reads `reasoning`.
pub(super) fn reasoning(raw: &RawValue, fields: &mut RequestFields) -> Result<(), Flaw> {
    let mut reasoning = Object::read(raw)?;
    let effort = reasoning.take_text("effort")?;
    let summary = reasoning.take_text("summary")?;
    if let Some(effort) = &effort {
        fields.pass_text("reasoning_effort", effort);
    }
    let mut echo = Writer::with_capacity(64);
    echo.open_object();
    echo.field("effort", &effort);
    echo.field("summary", &summary);
    echo.close_object();
    fields.echo.add("reasoning", echo.into_text());
    Ok(())
}

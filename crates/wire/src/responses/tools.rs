//! The tools of a request. Only client functions are supported: other tools run at OpenAI.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::bad_request::Flaw;
use crate::chat::begins;
use crate::json::{Object, Writer, compact, elements, flag, text};

/// A field in two forms: for the model server, and for the echo.
pub(super) struct ChatAndEcho {
    pub(super) chat: String,
    pub(super) echo: String,
}

/// Reads `tools`. `None` if there are none: then the model server does not get the field.
pub(super) fn tools(raw: &RawValue) -> Result<Option<ChatAndEcho>, Flaw> {
    let tools = elements(raw)?;
    if tools.is_empty() {
        return Ok(None);
    }
    let (mut chat, mut echo) = (Writer::with_capacity(raw.get().len()), Writer::with_capacity(raw.get().len()));
    chat.open_array();
    echo.open_array();
    for (index, tool) in tools.into_iter().enumerate() {
        let tool = function(tool).map_err(|flaw| flaw.element(index))?;
        tool.write_chat(&mut chat);
        tool.write_echo(&mut echo);
    }
    chat.close_array();
    echo.close_array();
    Ok(Some(ChatAndEcho { chat: chat.into_text(), echo: echo.into_text() }))
}

struct Function<'a> {
    name: Cow<'a, str>,
    description: Option<Cow<'a, str>>,
    parameters: Option<Cow<'a, str>>,
    strict: Option<bool>,
}

fn function(raw: &RawValue) -> Result<Function<'_>, Flaw> {
    let mut tool = Object::read(raw)?;
    if tool.take_name("type")? != "function" {
        return Err(Flaw::at("type", "must be function: other tools are not supported"));
    }
    let name = tool.take_name("name")?;
    let description = tool.take_text("description")?;
    let parameters = tool.take("parameters").map(|raw| {
        begins(raw, "{", "must be an object").and_then(|()| compact(raw)).map_err(|flaw| flaw.within("parameters"))
    });
    let strict = tool.take("strict").map(|raw| flag(raw).map_err(|flaw| flaw.within("strict")));
    Ok(Function { name, description, parameters: parameters.transpose()?, strict: strict.transpose()? })
}

impl Function<'_> {
    fn write_chat(&self, writer: &mut Writer) {
        writer.open_object();
        writer.field("type", "function");
        writer.key("function");
        writer.open_object();
        writer.field("name", &self.name);
        if let Some(description) = &self.description {
            writer.field("description", description);
        }
        if let Some(parameters) = &self.parameters {
            writer.raw_field("parameters", parameters);
        }
        if let Some(strict) = &self.strict {
            writer.field("strict", strict);
        }
        writer.close_object();
        writer.close_object();
    }

    fn write_echo(&self, writer: &mut Writer) {
        writer.open_object();
        writer.field("type", "function");
        writer.field("name", &self.name);
        writer.field("description", &self.description);
        writer.raw_field("parameters", self.parameters.as_deref().unwrap_or("null"));
        writer.field("strict", &self.strict);
        writer.close_object();
    }
}

/// Reads `tool_choice`.
pub(super) fn tool_choice(raw: &RawValue) -> Result<ChatAndEcho, Flaw> {
    begins(raw, "\"{", "must be a string or an object")?;
    if raw.get().starts_with('"') {
        let choice = text(raw)?;
        if !matches!(&*choice, "none" | "auto" | "required") {
            return Err(Flaw::new("must be none, auto, required or a function"));
        }
        let json = format!("\"{choice}\"");
        return Ok(ChatAndEcho { chat: json.clone(), echo: json });
    }
    let mut choice = Object::read(raw)?;
    match &*choice.take_name("type")? {
        "function" => {
            let name = choice.take_name("name")?;
            Ok(ChatAndEcho { chat: chat_name(&name), echo: echo_name(&name) })
        }
        "allowed_tools" => allowed_tools(choice),
        _ => Err(Flaw::at("type", "must be function or allowed_tools")),
    }
}

fn allowed_tools(mut choice: Object<'_>) -> Result<ChatAndEcho, Flaw> {
    let mode = choice.take_text("mode")?.unwrap_or(Cow::Borrowed("auto"));
    if !matches!(&*mode, "auto" | "required" | "none") {
        return Err(Flaw::at("mode", "must be auto, required or none"));
    }
    let raw = choice.take("tools").ok_or_else(|| Flaw::at("tools", "is required"))?;
    let mut names = Vec::new();
    for (index, tool) in elements(raw).map_err(|flaw| flaw.within("tools"))?.into_iter().enumerate() {
        let tool = function(tool).map_err(|flaw| flaw.element(index).within("tools"))?;
        names.push(tool.name);
    }
    let list = |form: fn(&str) -> String| names.iter().map(|name| form(name)).collect::<Vec<_>>().join(",");
    let (chat, echo) = (list(chat_name), list(echo_name));
    Ok(ChatAndEcho {
        chat: format!(r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"{mode}","tools":[{chat}]}}}}"#),
        echo: format!(r#"{{"type":"allowed_tools","mode":"{mode}","tools":[{echo}]}}"#),
    })
}

fn chat_name(name: &str) -> String {
    let mut writer = Writer::with_capacity(name.len() + 64);
    writer.open_object();
    writer.field("type", "function");
    writer.key("function");
    writer.open_object();
    writer.field("name", name);
    writer.close_object();
    writer.close_object();
    writer.into_text()
}

fn echo_name(name: &str) -> String {
    let mut writer = Writer::with_capacity(name.len() + 32);
    writer.open_object();
    writer.field("type", "function");
    writer.field("name", name);
    writer.close_object();
    writer.into_text()
}

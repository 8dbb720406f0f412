//! The tools of a request: functions of the client, and MCP servers that Herma runs. Other tools run at OpenAI.

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

/// The tools of a request.
#[derive(Default)]
pub(super) struct Tools {
    /// The client's functions, for the model server. `None` if there are none: then it does not get the field.
    pub(super) functions: Option<String>,
    /// All tools, for the echo.
    pub(super) echo: String,
    /// The labels of the MCP servers about whose calls the client can be asked.
    pub(super) servers: Vec<String>,
}

/// Reads `tools`. `None` if there are none.
pub(super) fn tools(raw: &RawValue) -> Result<Option<Tools>, Flaw> {
    let tools = elements(raw)?;
    if tools.is_empty() {
        return Ok(None);
    }
    let (mut chat, mut echo) = (Writer::with_capacity(raw.get().len()), Writer::with_capacity(raw.get().len()));
    let (mut servers, mut has_functions) = (Vec::new(), false);
    chat.open_array();
    echo.open_array();
    for (index, tool) in tools.into_iter().enumerate() {
        match read_tool(tool).map_err(|flaw| flaw.element(index))? {
            ListedTool::Function(function) => {
                has_functions = true;
                function.write_chat(&mut chat);
                function.write_echo(&mut echo);
            }
            ListedTool::Server(server) => {
                server.write_echo(&mut echo);
                servers.push(server.label.into_owned());
            }
        }
    }
    chat.close_array();
    echo.close_array();
    let functions = has_functions.then(|| chat.into_text());
    Ok(Some(Tools { functions, echo: echo.into_text(), servers }))
}

enum ListedTool<'a> {
    Function(Function<'a>),
    Server(Server<'a>),
}

fn read_tool(raw: &RawValue) -> Result<ListedTool<'_>, Flaw> {
    let mut tool = Object::read(raw)?;
    match &*tool.take_name("type")? {
        "function" => function(raw).map(ListedTool::Function),
        "mcp" => Server::read(tool).map(ListedTool::Server),
        _ => Err(Flaw::at("type", "must be function or mcp: other tools are not supported")),
    }
}

/// An MCP server that the client lists. The operator configures how it is reached and which of its calls are asked
/// for, so only its label counts. What the client says beside it is repeated, without headers and keys.
struct Server<'a> {
    label: Cow<'a, str>,
    repeated: Vec<(&'static str, Cow<'a, str>)>,
}

impl<'a> Server<'a> {
    const REPEATED: [&'static str; 5] =
        ["server_url", "server_description", "connector_id", "allowed_tools", "require_approval"];

    fn read(mut tool: Object<'a>) -> Result<Self, Flaw> {
        let label = tool.take_name("server_label")?;
        let mut repeated = Vec::new();
        for name in Self::REPEATED {
            let json = tool.take(name).map(|raw| compact(raw).map_err(|flaw| flaw.within(name))).transpose()?;
            repeated.push((name, json.unwrap_or(Cow::Borrowed("null"))));
        }
        Ok(Self { label, repeated })
    }

    fn write_echo(&self, writer: &mut Writer) {
        writer.open_object();
        writer.field("type", "mcp");
        writer.field("server_label", &self.label);
        for (name, json) in &self.repeated {
            writer.raw_field(name, json);
        }
        writer.raw_field("headers", "null");
        writer.close_object();
    }
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

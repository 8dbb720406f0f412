//! `tool_choice`: which of the tools the model may or must call.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{ChatAndEcho, Definition, Tools};
use crate::bad_request::Flaw;
use crate::chat::begins;
use crate::client_tools::ClientTool;
use crate::json::{Object, Writer, compact, elements, text};
use crate::responses::known::{HostedTools, Known};

/// Reads `tool_choice`. A choice that demands a tool that was left out is refused.
pub(in crate::responses) fn tool_choice(raw: &RawValue, tools: &Tools<'_>, known: &Known) -> Result<ChatAndEcho, Flaw> {
    begins(raw, "\"{", "must be a string or an object")?;
    if raw.get().starts_with('"') {
        let choice = text(raw)?;
        if !matches!(&*choice, "none" | "auto" | "required") {
            return Err(Flaw::new("must be none, auto, required or a tool"));
        }
        if choice == "required" && !tools.left_out.is_empty() && !tools.has_any() && tools.servers.is_empty() {
            return Err(left_out("must not be required", &tools.left_out.join(", ")));
        }
        let json = format!("\"{choice}\"");
        return Ok(ChatAndEcho { chat: json.clone(), echo: json });
    }
    let mut choice = Object::read(raw)?;
    if matches!(choice.rest().find(|(name, _)| *name == "type"), Some((_, kind)) if kind.get() == "\"allowed_tools\"") {
        return allowed_tools(choice, tools, known);
    }
    match read_tool(&mut choice, raw, tools, known)? {
        Chosen::Tools(mut forms) if forms.len() == 1 => Ok(forms.remove(0)),
        Chosen::Tools(_) => Err(Flaw::at("type", "must be function, custom or allowed_tools")),
        Chosen::LeftOut(kind) => Err(left_out("must not name a tool that was left out", &kind)),
    }
}

/// A tool that a choice names.
enum Chosen {
    /// The tool, or all tools of a namespace.
    Tools(Vec<ChatAndEcho>),
    /// A hosted tool, by its type.
    LeftOut(String),
}

fn allowed_tools(mut choice: Object<'_>, tools: &Tools<'_>, known: &Known) -> Result<ChatAndEcho, Flaw> {
    let mode = choice.take_text("mode")?.unwrap_or(Cow::Borrowed("auto"));
    if !matches!(&*mode, "auto" | "required" | "none") {
        return Err(Flaw::at("mode", "must be auto, required or none"));
    }
    let raw = choice.take("tools").ok_or_else(|| Flaw::at("tools", "is required"))?;
    let (mut chosen, mut missing) = (Vec::new(), Vec::new());
    for (index, raw) in elements(raw).map_err(|flaw| flaw.within("tools"))?.into_iter().enumerate() {
        let read = Object::read(raw).and_then(|mut tool| read_tool(&mut tool, raw, tools, known));
        match read.map_err(|flaw| flaw.element(index).within("tools"))? {
            Chosen::Tools(forms) => chosen.extend(forms),
            Chosen::LeftOut(kind) => missing.push(kind),
        }
    }
    let list = |form: fn(&ChatAndEcho) -> &str| chosen.iter().map(form).collect::<Vec<_>>().join(",");
    let (chat, echo) = (list(|forms| &forms.chat), list(|forms| &forms.echo));
    let echo = format!(r#"{{"type":"allowed_tools","mode":"{mode}","tools":[{echo}]}}"#);
    if chosen.is_empty() && !missing.is_empty() {
        return match &*mode {
            "required" => Err(left_out("must not be required", &missing.join(", ")).within("mode")),
            _ => Ok(ChatAndEcho { chat: "\"none\"".to_owned(), echo }),
        };
    }
    let chat = format!(r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"{mode}","tools":[{chat}]}}}}"#);
    Ok(ChatAndEcho { chat, echo })
}

fn read_tool(choice: &mut Object<'_>, raw: &RawValue, tools: &Tools<'_>, known: &Known) -> Result<Chosen, Flaw> {
    let kind = choice.take_name("type")?;
    match &*kind {
        "function" | "custom" => {
            let (name, namespace) = (choice.take_name("name")?, choice.take_text("namespace")?);
            let tool = ClientTool {
                name: name.into_owned(),
                namespace: namespace.filter(|name| !name.is_empty()).map(String::from),
                custom: kind == "custom",
            };
            Ok(Chosen::Tools(vec![forms(tools, &find(tools, tool)?)]))
        }
        "namespace" => {
            let name = choice.take_name("name")?;
            let all = tools.definitions.iter().map(Definition::tool);
            let named = all.filter(|tool| tool.namespace.as_deref() == Some(&*name));
            Ok(Chosen::Tools(named.map(|tool| forms(tools, &tool)).collect()))
        }
        "mcp" if choice.take_text("server_label")?.is_some_and(|label| known.runs(&label)) => {
            Err(Flaw::at("type", "must be function or custom: name a tool of this gateway as a function"))
        }
        _ if known.hosted == HostedTools::PassOn => {
            let json = compact(raw)?.into_owned();
            Ok(Chosen::Tools(vec![ChatAndEcho { chat: json.clone(), echo: json }]))
        }
        kind => Ok(Chosen::LeftOut(kind.to_owned())),
    }
}

/// The tool of the request that a choice means. Clients may leave out the namespace, and may call any tool a function.
fn find(tools: &Tools<'_>, chosen: ClientTool) -> Result<ClientTool, Flaw> {
    let listed: Vec<ClientTool> = tools.definitions.iter().map(Definition::tool).collect();
    if listed.contains(&chosen) {
        return Ok(chosen);
    }
    let is_meant = |tool: &&ClientTool| {
        tool.name == chosen.name && (chosen.namespace.is_none() || tool.namespace == chosen.namespace)
    };
    let mut meant = listed.iter().filter(is_meant);
    match (meant.next(), meant.next()) {
        (Some(tool), None) => Ok(tool.clone()),
        (Some(_), Some(_)) => Err(Flaw::at("name", "is the name of several tools: add their namespace")),
        (None, _) if chosen.is_plain() => Ok(chosen),
        (None, _) => Err(Flaw::at("name", "is not the name of a tool of this request")),
    }
}

fn forms(tools: &Tools<'_>, tool: &ClientTool) -> ChatAndEcho {
    let name = tools.names.model_name(tool);
    let mut chat = Writer::with_capacity(name.len() + 64);
    chat.open_object();
    chat.field("type", "function");
    chat.key("function");
    chat.open_object();
    chat.field("name", &name);
    chat.close_object();
    chat.close_object();
    let mut echo = Writer::with_capacity(name.len() + 64);
    echo.open_object();
    echo.field("type", if tool.custom { "custom" } else { "function" });
    echo.field("name", &tool.name);
    if let Some(namespace) = &tool.namespace {
        echo.field("namespace", namespace);
    }
    echo.close_object();
    ChatAndEcho { chat: chat.into_text(), echo: echo.into_text() }
}

fn left_out(what: &str, kinds: &str) -> Flaw {
    Flaw::new(format!(
        "{what}: the model server does not have {kinds}. Choose auto or a function, or let the operator set \
         responses.hosted_tools to pass_on"
    ))
}

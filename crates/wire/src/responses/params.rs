//! The fields of a request beside its input: checked, translated to chat's names for the model server, and kept for the
//! echo.
//!
//! Ranges differ between model servers, so they are not checked here.

use std::sync::Arc;

use herma_model::Params;
use serde_json::value::RawValue;

use super::echo::Echo;
use super::format;
use super::known::Known;
use super::tools::{ChatAndEcho, ToolList, Tools, tool_choice};
use crate::bad_request::Flaw;
use crate::chat::{number, positive};
use crate::client_tools::ClientTools;
use crate::json::{Object, Writer, compact, elements, flag, text};

/// The element of `include` that asks for log probabilities.
const LOGPROBS: &str = "message.output_text.logprobs";
/// The largest number of keys in `metadata`.
const MAX_METADATA: usize = 16;
/// Longest key of `metadata`, in characters.
const MAX_KEY: usize = 64;
/// Longest value of `metadata`, in characters.
const MAX_VALUE: usize = 512;

/// The fields that were read so far.
#[derive(Default)]
pub(super) struct RequestFields {
    pub(super) params: Params,
    /// Fields about tools that count only if Herma offers tools of its own: the client has none.
    pub(super) own_tool_params: Params,
    pub(super) echo: Echo,
    /// The labels of the MCP servers that the client lists.
    pub(super) servers: Vec<String>,
    /// What the model calls the client's tools.
    pub(super) client_tools: ClientTools,
}

impl RequestFields {
    /// Adds a field for the model server, as JSON.
    pub(super) fn pass(&mut self, name: &str, json: impl Into<Arc<str>>) {
        self.params.0.push((Box::from(name), json.into()));
    }

    /// Adds a text field for the model server.
    pub(super) fn pass_text(&mut self, name: &str, value: &str) {
        self.pass(name, quoted(value));
    }
}

/// Reads the fields that the model server or the echo needs. `additional` has lists of tools beside `tools`.
pub(super) fn read<'a>(
    body: &mut Object<'a>,
    additional: Vec<ToolList<'a>>,
    known: &Known,
) -> Result<RequestFields, Flaw> {
    let mut fields = RequestFields::default();
    numbers(body, &mut fields)?;
    texts(body, &mut fields)?;
    read_field(body, "text", |raw| format::text(raw, &mut fields))?;
    read_field(body, "reasoning", |raw| format::reasoning(raw, &mut fields))?;
    calls(body, additional, known, &mut fields)?;
    logprobs(body, &mut fields)?;
    read_field(body, "metadata", |raw| {
        fields.echo.add("metadata", metadata(raw)?);
        Ok(())
    })?;
    Ok(fields)
}

/// Takes a field out and reads it. `None` if it is absent.
pub(crate) fn read_field<'a, T>(
    body: &mut Object<'a>,
    name: &str,
    read: impl FnOnce(&'a RawValue) -> Result<T, Flaw>,
) -> Result<Option<T>, Flaw> {
    body.take(name).map(|raw| read(raw).map_err(|flaw| flaw.within(name))).transpose()
}

fn numbers(body: &mut Object<'_>, fields: &mut RequestFields) -> Result<(), Flaw> {
    for name in ["temperature", "top_p", "presence_penalty", "frequency_penalty"] {
        if let Some(json) = read_field(body, name, |raw| number(raw).map(|()| raw.get()))? {
            fields.pass(name, json);
            fields.echo.add(name, json);
        }
    }
    if let Some(json) = read_field(body, "max_output_tokens", |raw| positive(raw).map(|()| raw.get()))? {
        fields.pass("max_completion_tokens", json);
        fields.echo.add("max_output_tokens", json);
    }
    if let Some(json) = read_field(body, "max_tool_calls", |raw| positive(raw).map(|()| raw.get()))? {
        fields.echo.add("max_tool_calls", json);
    }
    Ok(())
}

fn texts(body: &mut Object<'_>, fields: &mut RequestFields) -> Result<(), Flaw> {
    for name in ["user", "prompt_cache_key", "safety_identifier", "service_tier"] {
        if let Some(value) = body.take_text(name)? {
            fields.pass_text(name, &value);
            fields.echo.add(name, quoted(&value));
        }
    }
    Ok(())
}

/// Reads the tools and the fields about tools. Model servers refuse such fields without tools.
fn calls<'a>(
    body: &mut Object<'a>,
    additional: Vec<ToolList<'a>>,
    known: &Known,
    fields: &mut RequestFields,
) -> Result<(), Flaw> {
    let own = body.take("tools").map(ToolList::own);
    let lists: Vec<ToolList<'a>> = own.into_iter().chain(additional).collect();
    let mut tools = Tools::read(&lists, known)?;
    let choice = read_field(body, "tool_choice", |raw| tool_choice(raw, &tools, known))?;
    let parallel = read_field(body, "parallel_tool_calls", flag)?;
    if let Some(echo) = tools.echo.take() {
        fields.echo.add("tools", echo);
    }
    let chat = tools.chat();
    let has_tools = chat.is_some();
    if let Some(chat) = chat {
        fields.pass("tools", chat);
    }
    fields.servers = tools.servers;
    fields.client_tools = tools.names;
    let parallel = parallel.map(|parallel| ChatAndEcho { chat: parallel.to_string(), echo: parallel.to_string() });
    for (name, forms) in [("tool_choice", choice), ("parallel_tool_calls", parallel)] {
        if let Some(forms) = forms {
            fields.echo.add(name, forms.echo);
            let params = if has_tools { &mut fields.params } else { &mut fields.own_tool_params };
            params.0.push((Box::from(name), forms.chat.into()));
        }
    }
    Ok(())
}

/// Reads the request for log probabilities: here a number or an element of `include`, in chat a boolean.
fn logprobs(body: &mut Object<'_>, fields: &mut RequestFields) -> Result<(), Flaw> {
    let included = read_field(body, "include", includes_logprobs)?.unwrap_or_default();
    let top = read_field(body, "top_logprobs", |raw| {
        raw.get().parse::<u32>().map_err(|_| Flaw::new("must be an integer from 0 on"))
    })?;
    if let Some(top) = top {
        fields.echo.add("top_logprobs", top.to_string());
    }
    let top = top.filter(|top| *top > 0);
    if included || top.is_some() {
        fields.pass("logprobs", "true");
    }
    if let Some(top) = top {
        fields.pass("top_logprobs", top.to_string());
    }
    Ok(())
}

fn includes_logprobs(raw: &RawValue) -> Result<bool, Flaw> {
    let mut found = false;
    for (index, name) in elements(raw)?.into_iter().enumerate() {
        found |= text(name).map_err(|flaw| flaw.element(index))? == LOGPROBS;
    }
    Ok(found)
}

/// Checks a client's metadata and returns it as compact JSON.
pub(crate) fn metadata(raw: &RawValue) -> Result<String, Flaw> {
    let metadata = Object::read(raw)?;
    if metadata.rest().count() > MAX_METADATA {
        return Err(Flaw::new(format!("must not have more than {MAX_METADATA} keys")));
    }
    for (key, value) in metadata.rest() {
        if key.chars().count() > MAX_KEY {
            return Err(Flaw::new(format!("must not have keys longer than {MAX_KEY} characters")));
        }
        if text(value).map_err(|flaw| flaw.within(key))?.chars().count() > MAX_VALUE {
            return Err(Flaw::at(key, format!("must not be longer than {MAX_VALUE} characters")));
        }
    }
    Ok(compact(raw)?.into_owned())
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    let mut writer = Writer::with_capacity(text.len() + 2);
    writer.value(text);
    writer.into_text()
}

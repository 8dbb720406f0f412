//! The `tool_calls` of an assistant's message.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use herma_model::CallId;
use herma_model::generation::ToolCall;
use serde_json::value::RawValue;

use super::identity::Identity;
use crate::bad_request::Flaw;
use crate::json::{Object, Writer, compact, elements, normal_form, text};

/// Fields of a call that Herma writes itself.
const OWN: [&str; 4] = ["id", "type", "function", "custom"];

/// The calls of one message: their JSON for model servers, and the ids that results must name.
#[derive(Default)]
pub(super) struct Calls {
    /// A JSON array. `None` if there are no calls.
    pub(super) json: Option<String>,
    pub(super) ids: Vec<CallId>,
}

/// Checks the calls of a client's message and adds them to its identity.
pub(super) fn read<'a>(raw: &'a RawValue, identity: &mut Identity<'a>) -> Result<Calls, Flaw> {
    let calls = elements(raw)?;
    if calls.is_empty() {
        return Ok(Calls::default());
    }
    let mut writer = Writer::with_capacity(raw.get().len());
    let mut seen = HashSet::with_capacity(calls.len());
    let mut ids = Vec::with_capacity(calls.len());
    writer.open_array();
    for (index, raw) in calls.into_iter().enumerate() {
        let id = read_call(raw, identity, &mut writer).map_err(|flaw| flaw.element(index))?;
        if !seen.insert(id.clone()) {
            return Err(Flaw::at("id", "is the id of an earlier call in the same message").element(index));
        }
        ids.push(Arc::from(id));
    }
    writer.close_array();
    Ok(Calls { json: Some(writer.into_text()), ids })
}

fn read_call<'a>(raw: &'a RawValue, identity: &mut Identity<'a>, writer: &mut Writer) -> Result<Cow<'a, str>, Flaw> {
    let mut call = Object::read(raw)?;
    let id = call.take_name("id")?;
    let kind = call.take_text("type")?.unwrap_or(Cow::Borrowed("function"));
    writer.open_object();
    writer.field("id", &id);
    writer.field("type", &kind);
    match &*kind {
        "function" => {
            let (name, arguments) = read_tool(&mut call, "function", "arguments", writer)?;
            identity.call(&id, &name, &arguments);
        }
        "custom" => {
            let (name, input) = read_tool(&mut call, "custom", "input", writer)?;
            identity.custom_call(&id, &name, &input);
        }
        _ => identity.other(&normal_form(raw)?),
    }
    write_rest(&call, writer)?;
    writer.close_object();
    Ok(id)
}

/// Reads and writes the tool of a call. `kind` is the field that has it, `arguments` the field of what it gets.
fn read_tool<'a>(
    call: &mut Object<'a>,
    kind: &str,
    arguments: &str,
    writer: &mut Writer,
) -> Result<(Cow<'a, str>, Cow<'a, str>), Flaw> {
    let raw = call.take(kind).ok_or_else(|| Flaw::at(kind, "is required"))?;
    writer.key(kind);
    let read = |writer: &mut Writer| {
        let mut tool = Object::read(raw)?;
        let name = tool.take_name("name")?;
        let given = tool.take_text(arguments)?.ok_or_else(|| Flaw::at(arguments, "is required"))?;
        writer.open_object();
        writer.field("name", &name);
        writer.field(arguments, &given);
        write_rest(&tool, writer)?;
        writer.close_object();
        Ok((name, given))
    };
    read(writer).map_err(|flaw: Flaw| flaw.within(kind))
}

/// Writes the fields that were not taken, as they came.
pub(super) fn write_rest(object: &Object<'_>, writer: &mut Writer) -> Result<(), Flaw> {
    for (name, raw) in object.rest() {
        writer.raw_field(name, &compact(raw).map_err(|flaw| flaw.within(name))?);
    }
    Ok(())
}

/// The type of a call, which is the field that has its tool, and the field of what the tool gets.
pub(super) const fn fields_of(custom: bool) -> (&'static str, &'static str) {
    if custom { ("custom", "input") } else { ("function", "arguments") }
}

/// Writes the calls of an answer as an array.
pub(crate) fn write(calls: &[ToolCall], writer: &mut Writer) {
    writer.open_array();
    for call in calls {
        writer.open_object();
        let (kind, arguments) = fields_of(call.custom);
        writer.field("id", &call.id);
        writer.field("type", kind);
        writer.key(kind);
        writer.open_object();
        writer.field("name", &call.name);
        writer.field(arguments, &call.arguments);
        writer.close_object();
        writer.extras(&call.extra, &OWN);
        writer.close_object();
    }
    writer.close_array();
}

/// Reads stored calls back. A call that is neither of a function nor of a custom tool has no name and no arguments.
pub(super) fn stored(raw: &RawValue) -> Vec<ToolCall> {
    elements(raw).unwrap_or_default().into_iter().filter_map(stored_call).collect()
}

fn stored_call(raw: &RawValue) -> Option<ToolCall> {
    let mut call = Object::read(raw).ok()?;
    let id = call.take_text("id").ok()??.into_owned();
    let custom = call.take("type").is_some_and(|kind| kind.get() == "\"custom\"");
    let (kind, arguments) = fields_of(custom);
    let mut tool = call.take(kind).and_then(|raw| Object::read(raw).ok());
    let mut take = |name| {
        let raw = tool.as_mut().and_then(|tool| tool.take(name));
        raw.and_then(|raw| text(raw).ok()).map(String::from).unwrap_or_default()
    };
    let (name, arguments) = (take("name"), take(arguments));
    let extra = serde_json::from_str(raw.get()).unwrap_or_default();
    Some(ToolCall { id, name, arguments, custom, extra: without_own(extra) })
}

fn without_own(mut extra: serde_json::Map<String, serde_json::Value>) -> serde_json::Map<String, serde_json::Value> {
    extra.retain(|name, _| !OWN.contains(&name.as_str()));
    extra
}

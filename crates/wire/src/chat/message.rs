//! One message of a request, by its role.

use std::sync::Arc;

use herma_model::{CallId, MessageStatus, Payload, Role, Utterance, tokens};
use serde_json::value::RawValue;

use super::extra::Extra;
use super::identity::Identity;
use super::tool_calls::{self, Calls, write_rest};
use super::{content, extra};
use crate::bad_request::Flaw;
use crate::json::{Object, Writer};

/// A message of a request.
pub(crate) enum RequestMessage {
    /// A system or developer message. It is not part of the transcript.
    System(Payload),
    /// A message of the transcript.
    Transcript(Utterance),
}

/// Checks a message and returns its canonical form.
pub(crate) fn read(raw: &RawValue) -> Result<RequestMessage, Flaw> {
    read_fields(&mut Object::read(raw)?, &mut Writer::with_capacity(raw.get().len()))
}

/// The same, for a message whose fields were read. The writer is a buffer that may be used again.
pub(super) fn read_fields(message: &mut Object<'_>, writer: &mut Writer) -> Result<RequestMessage, Flaw> {
    let role = message.take_name("role")?;
    writer.clear();
    write_role(&role, writer);
    match &*role {
        "system" | "developer" => system(message, writer).map(RequestMessage::System),
        "user" => user(message, writer).map(RequestMessage::Transcript),
        "assistant" => assistant(message, writer).map(RequestMessage::Transcript),
        "tool" => tool(message, writer).map(RequestMessage::Transcript),
        "function" => Err(Flaw::at("role", "must not be function: send results as role tool with a tool_call_id")),
        _ => Err(Flaw::at("role", "must be system, developer, user, assistant or tool")),
    }
}

/// Begins a payload.
pub(super) fn begin(role: &str, capacity: usize) -> Writer {
    let mut writer = Writer::with_capacity(capacity);
    write_role(role, &mut writer);
    writer
}

fn write_role(role: &str, writer: &mut Writer) {
    writer.open_object();
    writer.text_field("role", role);
}

/// Ends a payload and makes the utterance of it.
pub(super) fn end(writer: &mut Writer, role: Role, identity: Identity<'_>, calls: Vec<CallId>) -> Utterance {
    writer.close_object();
    let json = writer.as_text();
    Utterance {
        role,
        status: MessageStatus::Complete,
        tokens: tokens::estimate(&json),
        payload: Payload::from_json(&*json),
        extra: None,
        digest: identity.digest(),
        // An empty default shares its memory with all others.
        calls: if calls.is_empty() { Arc::default() } else { Arc::from(calls) },
    }
}

fn system(message: &mut Object<'_>, writer: &mut Writer) -> Result<Payload, Flaw> {
    // A system message is never compared with another message, so its identity is not used.
    let mut identity = Identity::of(Role::User);
    write_content(message, writer, &mut identity)?;
    write_name(message, writer)?;
    write_rest(message, writer)?;
    writer.close_object();
    Ok(Payload::from_json(&*writer.as_text()))
}

fn user(message: &mut Object<'_>, writer: &mut Writer) -> Result<Utterance, Flaw> {
    let mut identity = Identity::of(Role::User);
    write_content(message, writer, &mut identity)?;
    write_name(message, writer)?;
    write_rest(message, writer)?;
    Ok(end(writer, Role::User, identity, Vec::new()))
}

fn tool(message: &mut Object<'_>, writer: &mut Writer) -> Result<Utterance, Flaw> {
    let mut identity = Identity::of(Role::Tool);
    let call = message.take_name("tool_call_id")?;
    identity.answers(&call);
    write_content(message, writer, &mut identity)?;
    write_name(message, writer)?;
    writer.text_field("tool_call_id", &call);
    write_rest(message, writer)?;
    Ok(end(writer, Role::Tool, identity, vec![CallId::from(call)]))
}

fn assistant(message: &mut Object<'_>, writer: &mut Writer) -> Result<Utterance, Flaw> {
    if message.take("function_call").is_some() {
        return Err(Flaw::at("function_call", "is not supported: use tool_calls"));
    }
    let mut identity = Identity::of(Role::Assistant);
    let content = message.take("content").map(|raw| content::read(raw, &mut identity));
    let content = content.transpose().map_err(|flaw| flaw.within("content"))?;
    let refusal = message.take_text("refusal")?.filter(|refusal| !refusal.is_empty());
    if let Some(refusal) = &refusal {
        identity.refusal(refusal);
    }
    let calls = match message.take("tool_calls") {
        Some(raw) => tool_calls::read(raw, &mut identity).map_err(|flaw| flaw.within("tool_calls"))?,
        None => Calls::default(),
    };
    // Model servers accept a message without content only if it has calls or a refusal.
    let no_content = if calls.json.is_some() || refusal.is_some() { "null" } else { "\"\"" };
    writer.raw_field("content", content.as_deref().unwrap_or(no_content));
    write_name(message, writer)?;
    if let Some(refusal) = &refusal {
        writer.text_field("refusal", refusal);
    }
    if let Some(calls) = &calls.json {
        writer.raw_field("tool_calls", calls);
    }
    let response_only = Extra::of_message(extra::take_response_only(message));
    write_rest(message, writer)?;
    let mut said = end(writer, Role::Assistant, identity, calls.ids);
    said.extra = response_only.to_json();
    Ok(said)
}

fn write_content<'a>(message: &mut Object<'a>, writer: &mut Writer, identity: &mut Identity<'a>) -> Result<(), Flaw> {
    let raw = message.take("content").ok_or_else(|| Flaw::at("content", "is required"))?;
    let json = content::read(raw, identity).map_err(|flaw| flaw.within("content"))?;
    writer.raw_field("content", &json);
    Ok(())
}

fn write_name(message: &mut Object<'_>, writer: &mut Writer) -> Result<(), Flaw> {
    if let Some(name) = message.take_text("name")? {
        writer.text_field("name", &name);
    }
    Ok(())
}

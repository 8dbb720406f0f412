//! Removes a part from an assistant's message.

use herma_model::Utterance;
use serde_json::value::RawValue;

use super::extra::Extra;
use super::message::{RequestMessage, read};
use crate::bad_request::Flaw;
use crate::json::{Object, Writer, elements};

/// A part that can be removed from an assistant's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerPart {
    /// The text and the refusal.
    Text,
    /// The reasoning, under any of its names.
    Reasoning,
    /// The call at that index.
    Call(usize),
}

/// The message without a part. What is stored beside the payload stays, if it belongs to the rest. `None` if the
/// message cannot be read.
pub(crate) fn without(said: &Utterance, part: AnswerPart) -> Option<Utterance> {
    let json = rest_of(said.payload.as_json(), part).ok()?;
    let raw = RawValue::from_string(json).ok()?;
    let Ok(RequestMessage::Transcript(mut rest)) = read(&raw) else { return None };
    let mut extra = Extra { no_content: false, ..Extra::of(said) };
    match part {
        AnswerPart::Text => drop(extra.choice.shift_remove("logprobs")),
        AnswerPart::Reasoning => extra.message.retain(|name, _| !name.starts_with("reasoning")),
        AnswerPart::Call(_) => {}
    }
    rest.extra = extra.to_json();
    rest.status = said.status;
    Some(rest)
}

fn rest_of(payload: &str, part: AnswerPart) -> Result<String, Flaw> {
    let mut writer = Writer::with_capacity(payload.len());
    writer.open_object();
    for (name, raw) in Object::from_text(payload)?.rest() {
        match (part, name) {
            (AnswerPart::Text, "content" | "refusal") => {}
            (AnswerPart::Call(at), "tool_calls") => {
                let mut calls = elements(raw)?;
                if at < calls.len() {
                    calls.remove(at);
                }
                writer.field(name, &calls);
            }
            _ => writer.raw_field(name, raw.get()),
        }
    }
    writer.close_object();
    Ok(writer.into_text())
}

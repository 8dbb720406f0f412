//! An assistant's message without a part of what it says.

use herma_model::Utterance;
use serde_json::value::RawValue;

use super::extra::Extra;
use super::message::{Spoken, read};
use crate::bad_request::Flaw;
use crate::json::{Object, Writer, elements};

/// What an assistant's message can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerPart {
    /// The text and the refusal.
    Words,
    /// The reasoning, by whatever name.
    Reasoning,
    /// The call at that place.
    Call(usize),
}

/// The message without a part; what was kept beside the payload stays with what is left. Absent when the message cannot be read.
pub(crate) fn without(said: &Utterance, part: AnswerPart) -> Option<Utterance> {
    let json = rest_of(said.payload.as_json(), part).ok()?;
    let raw = RawValue::from_string(json).ok()?;
    let Ok(Spoken::Said(mut rest)) = read(&raw) else { return None };
    let mut extra = Extra { no_content: false, ..Extra::of(said) };
    match part {
        AnswerPart::Words => drop(extra.choice.shift_remove("logprobs")),
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
            (AnswerPart::Words, "content" | "refusal") => {}
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

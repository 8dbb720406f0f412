//! Reads a whole answer from the body of a response that was not streamed.

use herma_model::generation::{Finish, ToolCallDelta};
use herma_model::{Answer, Delta, FinishReason};
use serde_json::{Map, Value};

use super::assembler::may_be_empty;
use super::error::{DecodeError, ReportedError};
use super::extra::{is_bookkeeping, keep};
use super::text::Text;
use super::tool_calls::whole_call;
use super::usage::read_usage;

/// Reads a chat completion.
pub(crate) fn decode_answer(body: &[u8]) -> Result<Answer, DecodeError> {
    let body: Value = serde_json::from_slice(body).map_err(|error| DecodeError::not_json(body, &error))?;
    if let Some(error) = ReportedError::from_body(&body) {
        return Err(DecodeError::Reported(error));
    }
    let Value::Object(body) = body else { return Err(nonsense("JSON that is not an object")) };
    let mut answer = Answer {
        content: None,
        refusal: None,
        tool_calls: Vec::new(),
        extra: Map::new(),
        choice_extra: Map::new(),
        finish: Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Map::new() },
    };
    let mut choice = None;
    for (field, value) in body {
        match (field.as_str(), value) {
            ("choices", Value::Array(choices)) => choice = choices.into_iter().next(),
            ("usage", value) => answer.finish.usage = read_usage(&value),
            ("model", Value::String(model)) => answer.finish.model = Some(model).filter(|model| !model.is_empty()),
            ("error", _) => {}
            (name, _) if is_bookkeeping(name) => {}
            (name, value) => keep(&mut answer.finish.extra, name, value),
        }
    }
    let Some(Value::Object(choice)) = choice else { return Err(nonsense("a completion without choices")) };
    take_choice(&mut answer, choice)?;
    let is_empty =
        answer.content.is_none() && answer.refusal.is_none() && answer.tool_calls.is_empty() && answer.extra.is_empty();
    if is_empty && !may_be_empty(answer.finish.reason) { Err(DecodeError::EmptyAnswer) } else { Ok(answer) }
}

/// Converts a whole answer into one delta, which may be empty, and the finish.
pub(crate) fn in_one_piece(answer: Answer) -> (Delta, Finish) {
    let calls = answer.tool_calls.into_iter().zip(0..);
    let tool_calls = calls.map(|(call, index)| ToolCallDelta {
        index,
        id: Some(call.id),
        name: Some(call.name),
        arguments: Some(call.arguments),
        custom: call.custom,
        extra: call.extra,
    });
    let delta = Delta {
        content: answer.content,
        refusal: answer.refusal,
        tool_calls: tool_calls.collect(),
        extra: answer.extra,
        choice_extra: answer.choice_extra,
    };
    (delta, answer.finish)
}

fn take_choice(answer: &mut Answer, choice: Map<String, Value>) -> Result<(), DecodeError> {
    let mut message = None;
    let mut reason = None;
    for (field, value) in choice {
        match (field.as_str(), value) {
            ("index", _) => {}
            ("message", Value::Object(fields)) => message = Some(fields),
            ("finish_reason", Value::String(text)) if !text.is_empty() => reason = Some(text),
            ("error", value) if value.is_object() => {
                return Err(DecodeError::Reported(ReportedError::from_member(&value).unwrap_or_default()));
            }
            (name, value) => keep(&mut answer.choice_extra, name, value),
        }
    }
    take_message(answer, message.ok_or_else(|| nonsense("a choice without a message"))?)?;
    answer.finish.reason = match reason.as_deref() {
        Some("error") => return Err(DecodeError::CutOff),
        Some(reason) => FinishReason::from_wire(reason),
        None if answer.tool_calls.is_empty() => FinishReason::Stop,
        None => FinishReason::ToolCalls,
    };
    Ok(())
}

fn take_message(answer: &mut Answer, message: Map<String, Value>) -> Result<(), DecodeError> {
    for (field, value) in message {
        match (field.as_str(), value) {
            ("role", _) => {}
            ("content", value) => answer.content = text(value)?,
            ("refusal", value) => answer.refusal = text(value)?,
            ("tool_calls", Value::Array(calls)) => {
                for call in calls {
                    let Value::Object(call) = call else { return Err(nonsense("a tool call that is no object")) };
                    let call = whole_call(call, &answer.tool_calls);
                    answer.tool_calls.push(call);
                }
            }
            (name, value) => keep(&mut answer.extra, name, value),
        }
    }
    Ok(())
}

fn text(value: Value) -> Result<Option<String>, DecodeError> {
    let text: Text = serde_json::from_value(value).map_err(|_| nonsense("a message whose content is no text"))?;
    Ok(text.0.filter(|text| !text.is_empty()))
}

fn nonsense(what: &str) -> DecodeError {
    DecodeError::Nonsense(what.to_owned())
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;

//! Reads a whole answer from the body of a response that was not streamed.

use std::borrow::Cow;
use std::fmt;

use herma_model::generation::{Finish, ToolCallDelta};
use herma_model::{Answer, Delta, FinishReason};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::assembler::may_be_empty;
use super::chunk::{Name, read_object};
use super::error::{DecodeError, ReportedError};
use super::extra::{is_bookkeeping, keep};
use super::text::Text;
use super::tool_calls::whole_call;
use super::usage::read_usage;

/// Reads a chat completion.
pub(crate) fn decode_answer(body: &[u8]) -> Result<Answer, DecodeError> {
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(match serde_json::from_slice::<IgnoredAny>(body) {
            Ok(_) => nonsense("JSON that is not an object"),
            Err(error) => DecodeError::not_json(body, &error),
        });
    }
    let sent: Completion<'_> = serde_json::from_slice(body).map_err(|error| no_completion(body, &error))?;
    if let Some(error) = sent.reported_error(body) {
        return Err(DecodeError::Reported(error));
    }
    let choice = sent.choice.0.ok_or_else(|| nonsense("a completion without choices"))?;
    if let Some(error) = choice.error.filter(|error| error.get().starts_with('{')) {
        return Err(DecodeError::Reported(ReportedError::from_member(&value_of(error)).unwrap_or_default()));
    }
    let message = choice.message.ok_or_else(|| nonsense("a choice without a message"))?;
    let mut answer = Answer {
        content: text(message.content)?,
        refusal: text(message.refusal)?,
        tool_calls: Vec::new(),
        extra: message.extra,
        choice_extra: choice.extra,
        finish: Finish {
            reason: FinishReason::Stop,
            usage: sent.usage.and_then(|usage| read_usage(&mut serde_json::Deserializer::from_str(usage.get()))),
            model: sent.model.filter(|model| !model.is_empty()).map(Cow::into_owned),
            extra: sent.extra,
        },
    };
    if let Some(calls) = message.tool_calls {
        take_calls(&mut answer, calls)?;
    }
    answer.finish.reason = match choice.finish_reason.as_deref().filter(|reason| !reason.is_empty()) {
        Some("error") => return Err(DecodeError::CutOff),
        Some(reason) => FinishReason::from_wire(reason),
        None if answer.tool_calls.is_empty() => FinishReason::Stop,
        None => FinishReason::ToolCalls,
    };
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

/// A completion as it was sent.
#[derive(Debug, Default)]
struct Completion<'a> {
    choice: FirstChoice<'a>,
    usage: Option<&'a RawValue>,
    model: Option<Cow<'a, str>>,
    object: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    extra: Map<String, Value>,
}

impl Completion<'_> {
    /// The error that the server sent instead of a completion.
    fn reported_error(&self, body: &[u8]) -> Option<ReportedError> {
        let is_bare = self.object.is_some_and(|object| object.get() == "\"error\"");
        if self.error.is_none() && !is_bare {
            return None;
        }
        serde_json::from_slice(body).ok().and_then(|body: Value| ReportedError::from_body(&body))
    }
}

/// A choice as it was sent.
#[derive(Debug, Default)]
struct Choice<'a> {
    message: Option<WireMessage<'a>>,
    finish_reason: Option<Cow<'a, str>>,
    error: Option<&'a RawValue>,
    extra: Map<String, Value>,
}

/// A message as it was sent.
#[derive(Debug, Default)]
struct WireMessage<'a> {
    content: Option<&'a RawValue>,
    refusal: Option<&'a RawValue>,
    tool_calls: Option<&'a RawValue>,
    extra: Map<String, Value>,
}

/// The first of the choices. Herma asks for one.
#[derive(Debug, Default)]
struct FirstChoice<'a>(Option<Choice<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for FirstChoice<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct First;
        impl<'de> Visitor<'de> for First {
            type Value = FirstChoice<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(FirstChoice(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut choices: A) -> Result<Self::Value, A::Error> {
                let first = choices.next_element()?;
                while choices.next_element::<IgnoredAny>()?.is_some() {}
                Ok(FirstChoice(first))
            }
        }
        deserializer.deserialize_any(First)
    }
}

read_object!(Completion<'a>, "a completion", |sent, field, map| {
    match &*field {
        "choices" => sent.choice = map.next_value()?,
        "usage" => sent.usage = map.next_value()?,
        "model" => sent.model = map.next_value::<Option<Name<'a>>>()?.map(|name| name.0),
        "object" => sent.object = map.next_value()?,
        "error" => sent.error = map.next_value()?,
        name if is_bookkeeping(name) => drop(map.next_value::<IgnoredAny>()?),
        name => keep(&mut sent.extra, name, map.next_value()?),
    }
});

read_object!(Choice<'a>, "a choice object", |choice, field, map| {
    match &*field {
        "index" => drop(map.next_value::<IgnoredAny>()?),
        "message" => choice.message = map.next_value()?,
        "finish_reason" => choice.finish_reason = map.next_value::<Option<Name<'a>>>()?.map(|name| name.0),
        "error" => choice.error = map.next_value()?,
        name => keep(&mut choice.extra, name, map.next_value()?),
    }
});

read_object!(WireMessage<'a>, "a message object", |message, field, map| {
    match &*field {
        "role" => drop(map.next_value::<IgnoredAny>()?),
        "content" => message.content = map.next_value()?,
        "refusal" => message.refusal = map.next_value()?,
        "tool_calls" => message.tool_calls = map.next_value()?,
        name => keep(&mut message.extra, name, map.next_value()?),
    }
});

/// Why a JSON object is not a completion. Servers report errors in objects of many forms.
fn no_completion(body: &[u8], error: &serde_json::Error) -> DecodeError {
    let reported = serde_json::from_slice(body).ok().and_then(|body: Value| ReportedError::from_body(&body));
    reported.map_or_else(|| DecodeError::not_json(body, error), DecodeError::Reported)
}

fn take_calls(answer: &mut Answer, calls: &RawValue) -> Result<(), DecodeError> {
    let Value::Array(calls) = value_of(calls) else { return Ok(()) };
    for call in calls {
        let Value::Object(call) = call else { return Err(nonsense("a tool call that is no object")) };
        let call = whole_call(call, &answer.tool_calls);
        answer.tool_calls.push(call);
    }
    Ok(())
}

/// The value of a text that is known to be JSON.
fn value_of(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

fn text(raw: Option<&RawValue>) -> Result<Option<String>, DecodeError> {
    let Some(raw) = raw else { return Ok(None) };
    let text: Text<'_> = serde_json::from_str(raw.get()).map_err(|_| nonsense("a message whose content is no text"))?;
    Ok(text.0.filter(|text| !text.is_empty()).map(Cow::into_owned))
}

fn nonsense(what: &str) -> DecodeError {
    DecodeError::Nonsense(what.to_owned())
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;

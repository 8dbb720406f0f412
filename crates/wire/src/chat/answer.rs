//! Turns a model's answer into a message of the transcript, and back.

use std::borrow::Cow;

use herma_model::generation::Finish;
use herma_model::{Answer, CallId, MessageStatus, Role, Utterance};

use super::extra::Extra;
use super::identity::Identity;
use super::{content, message, tool_calls};
use crate::client_tools::{ClientCall, ClientTools, arguments_of, input_of};
use crate::json::{Object, text};

/// The transcript message of an answer: the payload is what was said, and everything else is stored beside it.
///
/// Usage, the finish reason and the model's name are not part of it; the turn has them.
pub fn assistant_utterance(answer: &Answer, status: MessageStatus) -> Utterance {
    client_utterance(answer, status, &ClientTools::default())
}

/// The same, for a client that has other tools than functions. It is stored how the client knows the calls of these.
///
/// The message has the identity that it has when the client sends it back.
pub fn client_utterance(answer: &Answer, status: MessageStatus, tools: &ClientTools) -> Utterance {
    let content = answer.content.as_deref();
    let has_more = answer.refusal.is_some() || !answer.tool_calls.is_empty();
    let mut identity = Identity::of(Role::Assistant);
    identity.text(Cow::Borrowed(content.unwrap_or_default()));
    identity.refusal(answer.refusal.as_deref().unwrap_or_default());
    let mut client_calls = Vec::new();
    for call in &answer.tool_calls {
        if call.custom {
            identity.custom_call(&call.id, &call.name, &call.arguments);
            continue;
        }
        let tool = tools.called(&call.name);
        let arguments = match tool {
            Some(tool) if tool.custom => Cow::Owned(arguments_of(&input_of(&call.arguments))),
            _ => Cow::Borrowed(call.arguments.as_str()),
        };
        identity.call(&call.id, &call.name, &arguments);
        client_calls.extend(tool.map(|tool| ClientCall { id: CallId::from(call.id.as_str()), tool: tool.clone() }));
    }

    let mut writer = message::begin(Role::Assistant.as_str(), content.map_or(64, |text| text.len() + 64));
    match content {
        None if has_more => writer.raw_field("content", "null"),
        text => writer.text_field("content", text.unwrap_or_default()),
    }
    if let Some(refusal) = &answer.refusal {
        writer.text_field("refusal", refusal);
    }
    if !answer.tool_calls.is_empty() {
        writer.key("tool_calls");
        tool_calls::write(&answer.tool_calls, &mut writer);
    }
    let calls = answer.tool_calls.iter().map(|call| CallId::from(call.id.as_str())).collect();
    let extra = Extra {
        message: answer.extra.clone(),
        choice: answer.choice_extra.clone(),
        answer: answer.finish.extra.clone(),
        no_content: content.is_none() && !has_more,
        client_calls,
        custom_output: false,
    };
    let mut said = message::end(&mut writer, Role::Assistant, identity, calls);
    said.status = status;
    said.extra = extra.to_json();
    said
}

/// Restores the answer from a stored message: the inverse of [`assistant_utterance`].
///
/// `finish` comes from the turn. The other fields of the answer object are put back into it.
pub fn answer_of(said: &Utterance, mut finish: Finish) -> Answer {
    let extra = Extra::of(said);
    for (name, value) in extra.answer {
        finish.extra.entry(name).or_insert(value);
    }
    let mut answer = Answer {
        content: None,
        refusal: None,
        tool_calls: Vec::new(),
        extra: extra.message,
        choice_extra: extra.choice,
        finish,
    };
    if let Ok(mut payload) = Object::from_text(said.payload.as_json()) {
        answer.content = payload.take("content").filter(|_| !extra.no_content).map(content::stored_text);
        answer.refusal = payload.take("refusal").and_then(|raw| text(raw).ok()).map(String::from);
        answer.tool_calls = payload.take("tool_calls").map(tool_calls::stored).unwrap_or_default();
    }
    answer
}

/// The text of a stored message, with its text parts joined. `None` if it has no text.
pub fn shown_text(said: &Utterance) -> Option<String> {
    let content = Object::from_text(said.payload.as_json()).ok()?.take("content")?;
    Some(content::stored_text(content)).filter(|text| !text.is_empty())
}

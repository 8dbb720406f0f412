//! The answer of a turn as its client is shown it: one message, however many the model said.
//!
//! The texts of the model's messages are joined by a blank line. Only calls of the client's tools are part of it. A
//! client that wants JSON gets the text of the last message alone.

use std::sync::Arc;

use herma_model::generation::Finish;
use herma_model::{Answer, FinishReason, Message, Params, Usage, Utterance};
use herma_store::TurnRecord;
use herma_wire::chat::{answer_of, shown_text};

use crate::request::TurnRequest;

/// Whether a request wants its answer as JSON.
pub(crate) fn wants_json(params: &Params) -> bool {
    params.get("response_format").is_some_and(|format| format.contains("json_"))
}

/// Whether a client is shown the text of the last message alone. A response shows each message as an item of its own.
pub(crate) fn holds_text(request: &TurnRequest) -> bool {
    wants_json(&request.options.params) && request.options.response.is_none()
}

/// The whole answer of a turn. `earlier` are the model's messages before the last one.
pub(crate) fn whole_answer<'a>(
    earlier: impl Iterator<Item = &'a Arc<Message>>,
    last: Answer,
    usage: Option<Usage>,
    wants_json: bool,
) -> Answer {
    let mut answer = last;
    if !wants_json {
        let mut texts: Vec<String> = earlier.filter_map(|message| shown_text(&message.said)).collect();
        if !texts.is_empty() {
            texts.extend(answer.content.take());
            answer.content = Some(texts.join("\n\n"));
        }
    }
    answer.finish.usage = match (usage, answer.finish.usage) {
        (Some(mut sum), Some(last)) => {
            sum += last;
            Some(sum)
        }
        (one, other) => one.or(other),
    };
    answer
}

/// A stored message as an answer that calls the client's tools alone.
pub(crate) fn client_answer(said: &Utterance, finish: Finish) -> Answer {
    let mut answer = answer_of(said, finish);
    let own = said.own_calls();
    answer.tool_calls.retain(|call| !own.iter().any(|own| *own.id == *call.id));
    if !own.is_empty() {
        answer.finish.reason = if answer.tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    }
    answer
}

/// The answer of a stored turn, or what was shown of one. `None` if the model said nothing.
pub fn stored_answer(record: &TurnRecord) -> Option<Answer> {
    let finish = record.finish.clone().unwrap_or_else(unknown_finish);
    let mut said = record.said();
    let last = &said.next_back()?.said;
    // The sum of the turn is in its record.
    let usage = finish.usage;
    let is_alone = last.shown_digest() == Some(last.digest);
    let mut answer = whole_answer(said, client_answer(last, finish), None, is_alone);
    answer.finish.usage = usage;
    Some(answer)
}

/// What is known of the end of an answer that has none.
pub(crate) fn unknown_finish() -> Finish {
    Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Default::default() }
}

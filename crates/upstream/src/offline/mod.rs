//! The built-in model. It needs no network, so that Herma can be tried without a key.
//!
//! It gives the same answer to the same call: it uses no clock and no randomness. It repeats the last message and
//! counts the user messages; asked what was said, it quotes them. So a person sees that the conversation is kept. It
//! calls tools and delegates when asked to, quotes their results, answers in JSON when it must, and respects token
//! limits.

mod answer;
mod prompt;
mod recall;
mod scan;
mod schema;
mod summary;
mod title;
mod tokens;
mod tools;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use herma_model::generation::{Finish, ModelFailureKind, ToolCall, ToolCallDelta};
use herma_model::{Answer, Delta, FinishReason, ModelCall, ModelEvent, ModelFailure, TextRun, TraceContext, Usage};
use serde_json::Map;

use self::answer::Reply;
use self::prompt::Prompt;
use crate::server::{ModelInfo, ModelServer, ModelStream, PassedAnswer, PassedTo};

/// The name of the built-in model.
const NAME: &str = "offline";

/// The built-in model.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineModel;

#[async_trait]
impl ModelServer for OfflineModel {
    async fn call(&self, call: ModelCall) -> Result<ModelStream, ModelFailure> {
        let answer = answer_to(&call);
        let events = if call.streaming { pieces(answer) } else { vec![ModelEvent::Answered(Box::new(answer))] };
        Ok(Box::pin(stream::iter([Ok(events)])))
    }

    async fn pass_on(&self, to: PassedTo, _: Bytes, _: Option<&TraceContext>) -> Result<PassedAnswer, ModelFailure> {
        let what = match to {
            PassedTo::Completions => "text completions",
            PassedTo::Embeddings => "embeddings",
        };
        let message = format!(
            "the built-in offline model has no {what}; set a model server that has them, for example \
             HERMA_UPSTREAM=http://localhost:11434/v1"
        );
        Err(ModelFailure { status: Some(400), ..ModelFailure::new(ModelFailureKind::Status, message) })
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ModelFailure> {
        Ok(vec![ModelInfo { id: NAME.to_owned(), created: 0, owned_by: "herma".to_owned() }])
    }

    fn describe(&self) -> String {
        "the built-in offline model".to_owned()
    }
}

fn answer_to(call: &ModelCall) -> Answer {
    let prompt = Prompt::read(call);
    let (mut content, mut tool_calls) = match answer::reply_to(&prompt) {
        Reply::Text(text) => (Some(text), Vec::new()),
        Reply::Calls(calls) => (None, calls),
    };
    let mut reason = if tool_calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    let mut output = cost(content.as_deref(), &tool_calls);
    if let Some(limit) = prompt.max_tokens.filter(|limit| *limit < output) {
        // A truncated tool call is useless, so all calls are left out.
        tool_calls.clear();
        content = content.map(|text| tokens::first(&text, limit).to_owned()).filter(|text| !text.is_empty());
        reason = FinishReason::Length;
        output = cost(content.as_deref(), &tool_calls);
    }
    let usage = Usage { input: prompt.tokens, output, ..Usage::default() };
    let finish = Finish { reason, usage: Some(usage), model: Some(NAME.to_owned()), extra: Map::new() };
    Answer { content, refusal: None, tool_calls, extra: Map::new(), choice_extra: Map::new(), finish }
}

fn cost(content: Option<&str>, calls: &[ToolCall]) -> u64 {
    let calls = calls.iter().map(|call| tokens::count(&call.name) + tokens::count(&call.arguments));
    content.map_or(0, tokens::count) + calls.sum::<u64>()
}

/// The events of a streamed answer: a piece per word, two per tool call.
fn pieces(answer: Answer) -> Vec<ModelEvent> {
    let words: TextRun = answer.content.as_deref().unwrap_or_default().split_inclusive(char::is_whitespace).collect();
    let text = (!words.is_empty()).then_some(ModelEvent::Text(words));
    let calls = answer.tool_calls.into_iter().zip(0..).flat_map(|(call, index)| {
        let named = ToolCallDelta { index, id: Some(call.id), name: Some(call.name), ..ToolCallDelta::default() };
        let filled = ToolCallDelta { index, arguments: Some(call.arguments), ..ToolCallDelta::default() };
        [named, filled].map(|piece| Delta { tool_calls: vec![piece], ..Delta::default() })
    });
    let mut events: Vec<ModelEvent> = text.into_iter().chain(calls.map(ModelEvent::Delta)).collect();
    events.push(ModelEvent::Finished(answer.finish));
    events
}

#[cfg(test)]
mod tests;

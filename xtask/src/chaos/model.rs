//! The model server. Its answer depends on the seed, the message, and how often it got this message before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use herma_testkit::upstream::{Ending, Pace};
use herma_testkit::{Completion, Recorded, Reply, ScriptedUpstream, ToolCall};
use serde_json::json;

use super::history::{Line, ModelCall};
use super::marks::{self, Mark, Token};

/// The prefixes of Herma's ids. 32 hex digits follow.
const PREFIXES: [&str; 9] = ["conv_", "sess_", "resp_", "run_", "msg_", "turn_", "cmp_", "job_", "hk-"];

/// The tool that the model calls.
const TOOL: &str = "chaos__count";

/// More words than a quick answer has. A slow answer takes at least 2 s for this many words.
pub(super) const QUICK_WORDS: usize = 40;

/// The shortest pause between two words of a slow answer, in milliseconds.
pub(super) const SLOW_PACE: u64 = 50;
/// Within a worker's message numbers: from this one on, answers are quick and never fail.
pub(super) const SURE: u32 = 8_000;
/// From this one on, answers are slow and never fail.
pub(super) const SLOW: u32 = 9_000;
/// The message numbers of one worker in one round.
pub(super) const EACH: u32 = 10_000;

/// The state of the model server. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Model(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    seed: u64,
    fails: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: HashMap<Token, u32>,
    calls: Vec<ModelCall>,
}

impl Model {
    /// Creates a model with this seed. Without `fails`, every call is answered.
    pub(super) fn new(seed: u64, fails: bool) -> Self {
        Self(Arc::new(Shared { seed, fails, state: Mutex::default() }))
    }

    /// Makes a server answer as this model does.
    pub(super) fn answer_at(&self, upstream: &ScriptedUpstream) {
        let model = self.clone();
        upstream.otherwise(move |request| model.reply(request));
    }

    /// Returns the calls since the last `take_calls`.
    pub(super) fn take_calls(&self) -> Vec<ModelCall> {
        std::mem::take(&mut self.lock().calls)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reply(&self, request: &Recorded) -> Reply {
        let mut state = self.lock();
        let mut call = recorded(request);
        if call.is_summary {
            state.calls.push(call);
            return Reply::text("They spoke of rivers and stones.");
        }
        let Mark::Question(token) = Mark::of(&request.last_user_text()) else {
            state.calls.push(call);
            return Reply::status(400, "a question without a mark");
        };
        let number = state.asked.entry(token).and_modify(|number| *number += 1).or_insert(1);
        if marks::wants_call(&request.last_user_text()) && !ends_with_result(request) {
            let id = marks::call_id(token, *number);
            state.calls.push(call);
            return Reply::tool_calls([ToolCall::new(&id, TOOL, json!({"mark": id}).to_string())]);
        }
        let (answer, reply) = self.planned(token, *number);
        call.answer = answer;
        state.calls.push(call);
        reply
    }

    /// The answer to the `number`th call for a message: its text and the scripted reply.
    fn planned(&self, token: Token, number: u32) -> (String, Reply) {
        let random = &mut marks::stream(self.0.seed, (u64::from(token.0) << 8) | u64::from(number));
        let fate = random.below(100);
        let position = token.0 % EACH;
        let is_slow = position >= SLOW || (position < SURE && (60..66).contains(&fate));
        let words = if is_slow { 60 + random.below(80) } else { 8 + random.below(QUICK_WORDS as u64 - 10) };
        let text = marks::answer(token, number, words, random);
        let pause = if is_slow { SLOW_PACE + random.below(50) } else { random.below(20) };
        let said = Completion::text(text.clone()).pace(Pace::Every(Duration::from_millis(pause)));
        let after = random.below(words) as usize;
        let reply = match fate {
            _ if !self.0.fails || position >= SURE => said.into(),
            0..3 => Reply::status(503, "the server is busy"),
            3..7 => Reply::status(400, "the server does not like this"),
            7..12 => said.ending(Ending::CutOffAfter(after)).into(),
            12..14 => said.ending(Ending::ErrorAfter(after, "the server broke".to_owned())).into(),
            14..16 => Reply::CloseBeforeHeaders,
            _ => said.into(),
        };
        (text, reply)
    }
}

/// Converts a request to the checker's record.
fn recorded(request: &Recorded) -> ModelCall {
    let said = request.messages().iter().zip(request.transcript());
    let said = said.filter(|(message, _)| message["role"] != "system");
    let lines = said.map(|(message, line)| {
        let text = line.split_once(": ").map(|(_, text)| text.to_owned());
        Line::of(message, text.unwrap_or_default())
    });
    let raw = String::from_utf8_lossy(&request.raw);
    let mut leaks = leaks(&raw);
    leaks.extend(request.headers.keys().map(|name| name.to_string()).filter(|name| name.starts_with("x-hermes")));
    ModelCall { is_summary: is_summary(request), messages: lines.collect(), answer: String::new(), leaks }
}

/// Whether the last message is the result of a tool call.
fn ends_with_result(request: &Recorded) -> bool {
    request.messages().last().is_some_and(|message| message["role"] == "tool")
}

/// Whether this is a request for a summary, which quotes the conversation in one message.
fn is_summary(request: &Recorded) -> bool {
    let last = request.last_user_text();
    last.split_once("</conversation>").is_some_and(|(_, asked)| asked.contains("summary"))
}

/// Herma's ids and client-chosen names in a text.
fn leaks(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for prefix in PREFIXES {
        for (at, _) in text.match_indices(prefix) {
            let digits = text[at + prefix.len()..].chars().take_while(char::is_ascii_hexdigit).count();
            if digits >= 32 {
                found.push(text[at..at + prefix.len() + digits].to_owned());
            }
        }
    }
    found.extend(text.contains(super::NAMES).then(|| super::NAMES.to_owned()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_seen_and_other_words_are_not() {
        let id = format!("conv_{}", "0a".repeat(16));
        assert_eq!(leaks(&format!("see {id}, please")), [id]);
        assert_eq!(leaks(&format!("{}3", super::super::NAMES)), [super::super::NAMES]);
        assert_eq!(leaks("a run_daily, conv_12 and msg_"), [""; 0]);
    }

    #[test]
    fn an_answer_follows_from_seed_message_and_call() {
        let text = |seed, token, number| Model::new(seed, true).planned(Token(token), number).0;
        assert_eq!(text(1, 5, 1), text(1, 5, 1));
        assert_ne!(text(1, 5, 1), text(2, 5, 1));
        assert_eq!(Mark::of(&text(1, 5, 2)), Mark::Answer(Token(5), 2));
    }
}

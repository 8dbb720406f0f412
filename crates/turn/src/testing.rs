//! A transcript for tests, built turn by turn.

use std::collections::HashMap;
use std::sync::Arc;

use herma_model::compaction::MadeBy;
use herma_model::{
    Base, CallEnd, CallId, CallStatus, CompactionId, Digest, EarlierCall, Message, MessageId, MessageStatus, OwnCall,
    Payload, Role, Seq, SessionId, Summary, Timestamp, TurnId, TurnState, Unanswered, Utterance,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::context::Transcript;

/// A conversation that a test builds turn by turn.
#[derive(Default)]
pub(crate) struct Story {
    pub(crate) messages: Vec<Arc<Message>>,
    rewound: Vec<Arc<Message>>,
    unanswered: HashMap<TurnId, Unanswered>,
    begun_anew: HashMap<TurnId, u32>,
    base: Option<Base>,
    forgotten: bool,
    turns: u128,
}

impl Story {
    pub(crate) fn transcript(&self) -> Transcript<'_> {
        let (base, whole) = (self.base.as_ref(), !self.forgotten);
        let (unanswered, begun_anew) = (&self.unanswered, &self.begun_anew);
        Transcript { base, messages: &self.messages, rewound: &self.rewound, whole, unanswered, begun_anew }
    }

    /// Puts a summary in place of the messages up to a place, except carried ones.
    pub(crate) fn compact(&mut self, summary: &str, through: i64, carried: &[i64]) {
        let carried = carried.iter().map(|place| Arc::clone(self.messages.iter().find(|m| m.seq.0 == *place).unwrap()));
        self.base = Some(Base {
            through: Seq(through),
            made_by: MadeBy::Herma,
            carried: carried.collect(),
            summary: Summary {
                id: MessageId::from_uuid(Uuid::nil()),
                seq: Seq(self.messages.len() as i64 + 1),
                session: SessionId::from_name("s"),
                compaction: CompactionId::from_uuid(Uuid::nil()),
                created_at: Timestamp(0),
                said: user(summary),
            },
        });
    }

    /// Hides all messages after a place from the model.
    pub(crate) fn rewind(&mut self, to: i64) {
        let kept = self.messages.partition_point(|message| message.seq.0 <= to);
        self.rewound.extend(self.messages.drain(kept..));
        self.rewound.sort_by_key(|message| message.seq);
    }

    /// Drops the messages up to the end of the base, as a cache does.
    pub(crate) fn forget(&mut self) {
        let through = self.base.as_ref().map_or(Seq(0), |base| base.through);
        self.messages.retain(|message| message.seq > through);
        self.forgotten = true;
    }

    pub(crate) fn last_turn(&self) -> TurnId {
        TurnId::from_uuid(Uuid::from_u128(self.turns))
    }

    pub(crate) fn turn(&mut self, input: &str, answer: &str) {
        self.input(input);
        self.answer(answer);
    }

    pub(crate) fn input(&mut self, text: &str) {
        self.turns += 1;
        self.push(user(text), 1);
    }

    pub(crate) fn answer(&mut self, text: &str) {
        self.push(assistant(text), 1);
    }

    pub(crate) fn calls(&mut self, input: &str, calls: &[&str]) {
        self.input(input);
        let mut said = assistant(&format!("calls {}", calls.join(" ")));
        said.calls = calls.iter().map(|call| CallId::from(*call)).collect();
        self.push(said, 1);
    }

    /// A turn that calls Herma's own tools, with these results.
    pub(crate) fn own_round(&mut self, input: &str, calls: &[&str], results: &[(&str, &str)]) {
        self.input(input);
        self.further_round(calls, results);
    }

    /// Another round of the same turn.
    pub(crate) fn further_round(&mut self, calls: &[&str], results: &[(&str, &str)]) {
        let mut said = assistant(&format!("calls {}", calls.join(" ")));
        said.calls = calls.iter().map(|call| CallId::from(*call)).collect();
        self.push(said, 1);
        let own = |call: &&str| OwnCall {
            id: (*call).into(),
            server: "s".into(),
            tool: "t".into(),
            asks: false,
            waits: false,
            max_output: None,
        };
        let own: Vec<_> = calls.iter().map(own).collect();
        let message = Arc::make_mut(self.messages.last_mut().unwrap());
        message.said = message.said.clone().with_own_calls(&own);
        for (call, text) in results {
            self.push(Utterance::tool_result(call, text, &CallEnd::at_once(CallStatus::Done)), 1);
        }
    }

    /// The result of a call with which an earlier turn ended.
    pub(crate) fn late_result(&mut self, call: &str, text: &str) {
        let earlier = EarlierCall { server: "s".into(), tool: "t".into(), arguments: "{}".into() };
        let end = CallEnd { call: Some(earlier), ..CallEnd::at_once(CallStatus::Done) };
        self.push(Utterance::tool_result(call, text, &end), 1);
    }

    /// Ends the last turn without an answer.
    pub(crate) fn fail_last_turn(&mut self) -> TurnId {
        self.unanswered.insert(self.last_turn(), Unanswered { state: TurnState::Failed, attempt: 1 });
        self.last_turn()
    }

    pub(crate) fn result(&mut self, call: &str, text: &str) {
        self.turns += 1;
        self.push(tool(call, text), 1);
    }

    pub(crate) fn unanswered(&mut self, input: &str, shown: Option<&str>, state: TurnState) {
        self.input(input);
        if let Some(text) = shown {
            self.push(Utterance::partial_text(text), 1);
        }
        self.unanswered.insert(self.last_turn(), Unanswered { state, attempt: 1 });
    }

    /// A second attempt of an unanswered turn, after other turns.
    pub(crate) fn begin_anew(&mut self, turn: TurnId, input: &str) {
        self.begun_anew.insert(turn, 2);
        self.push_to(turn, user(input), 2);
    }

    /// The answer of that second attempt.
    pub(crate) fn answer_anew(&mut self, turn: TurnId, text: &str) {
        self.unanswered.remove(&turn);
        self.push_to(turn, assistant(text), 2);
    }

    pub(crate) fn answer_again(&mut self, text: &str) {
        self.unanswered.remove(&self.last_turn());
        self.push(assistant(text), 2);
    }

    pub(crate) fn push(&mut self, said: Utterance, attempt: u32) {
        self.push_to(self.last_turn(), said, attempt);
    }

    fn push_to(&mut self, turn: TurnId, said: Utterance, attempt: u32) {
        let last = self.messages.iter().chain(&self.rewound).map(|message| message.seq.0).max();
        let place = last.unwrap_or(0) + 1;
        self.messages.push(Arc::new(Message {
            id: MessageId::from_uuid(Uuid::from_u128(place.unsigned_abs().into())),
            seq: Seq(place),
            session: SessionId::from_name("s"),
            turn,
            attempt,
            created_at: Timestamp(place),
            said,
        }));
    }
}

fn said(role: Role, text: &str, json: &Value) -> Utterance {
    Utterance {
        role,
        status: MessageStatus::Complete,
        payload: Payload::from_json(json.to_string()),
        extra: None,
        digest: Utterance::text_digest(role, text),
        calls: Arc::from([]),
        tokens: 1,
    }
}

pub(crate) fn user(text: &str) -> Utterance {
    said(Role::User, text, &json!({ "role": "user", "content": text }))
}

pub(crate) fn assistant(text: &str) -> Utterance {
    said(Role::Assistant, text, &json!({ "role": "assistant", "content": text }))
}

pub(crate) fn tool(call: &str, text: &str) -> Utterance {
    let mut result = said(Role::Tool, text, &json!({ "role": "tool", "tool_call_id": call, "content": text }));
    result.digest = Digest::of_fields([b"tool".as_slice(), call.as_bytes(), text.as_bytes()]);
    result.calls = Arc::from([CallId::from(call)]);
    result
}

/// A context as lines of the form `role: text`.
pub(crate) fn payloads(context: &[Payload]) -> Vec<String> {
    let line = |payload: &Payload| {
        let message: Value = serde_json::from_str(payload.as_json()).unwrap();
        let call =
            message.get("tool_call_id").and_then(Value::as_str).map(|call| format!(" {call}")).unwrap_or_default();
        format!("{}{call}: {}", message["role"].as_str().unwrap(), message["content"].as_str().unwrap())
    };
    context.iter().map(line).collect()
}

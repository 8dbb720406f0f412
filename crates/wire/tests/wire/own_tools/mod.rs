//! Calls of Herma's own tools: as items, as events, and in requests.

mod requests;
mod responses;
mod runs;

use std::sync::Arc;

use herma_model::generation::{Answer, ToolCall};
use herma_model::{
    CallEnd, CallStatus, EarlierCall, Message, MessageId, MessageStatus, OwnCall, Seq, SessionId, Step, Timestamp,
    TurnId, Utterance,
};
use herma_wire::chat::assistant_utterance;
use uuid::Uuid;

fn id(number: u128) -> MessageId {
    MessageId::from_uuid(Uuid::from_u128(number))
}

fn own(id: &str) -> OwnCall {
    OwnCall { id: id.into(), server: "files".into(), tool: "read".into(), asks: false, waits: false, max_output: None }
}

fn asking(id: &str) -> OwnCall {
    OwnCall { asks: true, waits: true, ..own(id) }
}

fn waiting(id: &str) -> OwnCall {
    OwnCall { waits: true, ..own(id) }
}

/// An answer that calls these tools, each with its id as its argument.
fn calling(text: Option<&str>, calls: &[&str]) -> Answer {
    let call = |id: &&str| ToolCall {
        id: (*id).to_owned(),
        name: "files__read".to_owned(),
        arguments: format!(r#"{{"path":"{id}"}}"#),
        ..ToolCall::default()
    };
    let tool_calls = calls.iter().map(call).collect();
    Answer { content: text.map(str::to_owned), tool_calls, ..crate::text_answer("") }
}

fn stored(number: u128, said: Utterance) -> Arc<Message> {
    Arc::new(Message {
        id: id(number),
        seq: Seq(1),
        session: SessionId::from_name("s"),
        turn: TurnId::from_uuid(Uuid::from_u128(1)),
        attempt: 1,
        created_at: Timestamp(0),
        said,
    })
}

fn said(number: u128, answer: &Answer, own: &[OwnCall]) -> Step {
    Step::Said(stored(number, assistant_utterance(answer, MessageStatus::Complete).with_own_calls(own)))
}

fn result(number: u128, call: &str, status: CallStatus, text: &str) -> Step {
    let end = CallEnd { duration_ms: 1500, ..CallEnd::at_once(status) };
    Step::ToolResult(stored(number, Utterance::tool_result(call, text, &end)))
}

/// The result of a call that an earlier turn made.
fn late_result(number: u128, call: &str, text: &str) -> Step {
    let earlier = EarlierCall { server: "files".into(), tool: "write".into(), arguments: r#"{"path":"late"}"#.into() };
    let end = CallEnd { call: Some(earlier), ..CallEnd::at_once(CallStatus::Done) };
    Step::ToolResult(stored(number, Utterance::tool_result(call, text, &end)))
}

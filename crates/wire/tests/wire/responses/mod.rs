//! The Responses API.

mod contexts;
mod events;
mod objects;
mod properties;
mod references;
mod refusals;
mod removal;
mod requests;
mod rules;
mod tools;

use herma_model::generation::ToolCallDelta;
use herma_model::{CompactionId, Delta, MessageId, Timestamp, Usage};
use herma_testkit::check_response_stream;
use herma_wire::responses::{
    About, Ending, Events, Frame, Item, ResponseError, ResponseOutcome, compaction_item, parse,
};
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) const MESSAGE: MessageId = MessageId::from_uuid(Uuid::from_u128(10));

pub(crate) fn about(body: &Value) -> About {
    let mut body = body.clone();
    body["input"] = json!("hi");
    About {
        id: "resp_1".to_owned(),
        created_at: Timestamp(1_772_582_400_500),
        model: "gpt-5".to_owned(),
        previous_response_id: None,
        conversation: None,
        echo: parse(body.to_string().as_bytes()).unwrap().echo,
    }
}

pub(crate) fn ending(outcome: ResponseOutcome) -> Ending {
    let usage = Some(Usage { input: 10, output: 5, cached: 4, reasoning: 2, ..Usage::default() });
    Ending { outcome, at: Timestamp(1_772_582_402_000), usage }
}

pub(crate) fn failed() -> ResponseOutcome {
    ResponseOutcome::Failed(ResponseError {
        code: "upstream_error".into(),
        message: "the model server answered 500".into(),
    })
}

pub(crate) fn text(content: &str) -> Delta {
    Delta { content: Some(content.to_owned()), ..Delta::default() }
}

pub(crate) fn refusal(refusal: &str) -> Delta {
    Delta { refusal: Some(refusal.to_owned()), ..Delta::default() }
}

pub(crate) fn reasoning(text: &str) -> Delta {
    Delta { extra: crate::map(json!({ "reasoning_content": text })), ..Delta::default() }
}

pub(crate) fn call(index: u32, name: Option<&str>, arguments: &str) -> Delta {
    let piece = ToolCallDelta {
        index,
        id: name.map(|_| format!("call_{index}")),
        name: name.map(str::to_owned),
        arguments: Some(arguments.to_owned()),
        ..ToolCallDelta::default()
    };
    Delta { tool_calls: vec![piece], ..Delta::default() }
}

fn compaction() -> Item {
    compaction_item(CompactionId::from_uuid(Uuid::from_u128(7)), "opaque")
}

/// A whole stream, checked against the rules of the protocol. `compacted` comes before the answer.
fn stream(about: About, compacted: Option<Item>, deltas: &[Delta], ending: &Ending) -> Vec<Frame> {
    let (mut events, mut frames) = Events::begin(about, MESSAGE, Some(&crate::session()));
    frames.extend(events.started());
    frames.extend(compacted.map(|item| events.compacted(item)).unwrap_or_default());
    frames.extend(deltas.iter().flat_map(|delta| events.delta(delta)));
    frames.extend(events.end(ending, Some(&crate::session())));
    check_response_stream(&frames.iter().map(data).collect::<Vec<_>>());
    frames
}

fn data(frame: &Frame) -> Value {
    let text = std::str::from_utf8(&frame.bytes).unwrap();
    let (name, data) = text.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
    let data: Value = serde_json::from_str(data.strip_suffix("\n\n").unwrap()).unwrap();
    assert_eq!((data["type"].as_str(), data["sequence_number"].as_u64()), (Some(name), Some(frame.number)));
    data
}

/// The events, one per line. A response is reduced to the fields that change.
fn shown(frames: &[Frame]) -> String {
    let lines = frames.iter().map(|frame| {
        let mut data = crate::map(data(frame));
        let kind = data.shift_remove("type").unwrap();
        data.shift_remove("sequence_number");
        if let Some(response) = data.get_mut("response") {
            let has_session = response.get("session").is_some();
            let fields = ["status", "output", "error", "incomplete_details", "completed_at"];
            let fields = fields.iter().map(|name| ((*name).to_owned(), response[name].take()));
            let mut kept: serde_json::Map<_, _> = fields.filter(|(_, value)| !value.is_null()).collect();
            kept.insert("session".to_owned(), has_session.into());
            *response = Value::Object(kept);
        }
        let hex = MESSAGE.uuid().simple().to_string();
        let line = format!("{:2} {} {}", frame.number, kind.as_str().unwrap(), Value::Object(data));
        line.replace(&hex, "<hex>").replace("response.", "")
    });
    lines.collect::<Vec<_>>().join("\n")
}

//! Checks that a broken rule is noticed, so that a stream that passes proves something.

use herma_testkit::broken_rules;
use herma_wire::responses::ResponseOutcome;
use serde_json::{Value, json};

use super::{about, call, compaction, data, ending, failed, reasoning, stream, text};

/// A stream with an item of every kind.
fn whole() -> Vec<Value> {
    let deltas = [reasoning("Hm."), text("Hel"), text("lo"), call(0, Some("f"), "{}")];
    let frames = stream(about(&json!({})), Some(compaction()), &deltas, &ending(ResponseOutcome::Completed));
    frames.iter().map(data).collect()
}

fn position(events: &[Value], kind: &str) -> usize {
    events.iter().position(|event| event["type"] == kind).unwrap()
}

/// Renumbers the events, so that only the intended change is wrong.
fn numbered(mut events: Vec<Value>) -> Vec<Value> {
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

#[test]
fn an_event_that_is_missing_or_comes_twice_is_noticed() {
    let events = whole();
    assert_eq!(broken_rules(&events), Vec::<String>::new());
    for at in 0..events.len() {
        let kind = events[at]["type"].as_str().unwrap();
        // This event may be missing or come twice: it only says that the turn has begun.
        let is_optional = kind == "response.in_progress";
        let mut fewer = events.clone();
        fewer.remove(at);
        assert_ne!(broken_rules(&fewer), Vec::<String>::new(), "a gap after {kind}");
        assert_eq!(broken_rules(&numbered(fewer)).is_empty(), is_optional, "without {kind}");
        let mut more = events.clone();
        more.insert(at, events[at].clone());
        assert_eq!(broken_rules(&numbered(more)).is_empty(), is_optional, "twice {kind}");
    }
}

#[test]
fn a_field_that_says_something_else_is_noticed() {
    let changes = [
        ("response.output_item.added", "/output_index", json!(7)),
        ("response.output_item.added", "/item/status", json!("completed")),
        ("response.output_item.done", "/item/status", json!("in_progress")),
        ("response.output_item.done", "/item/id", json!("other")),
        ("response.output_text.delta", "/item_id", json!("other")),
        ("response.output_text.delta", "/content_index", json!(1)),
        ("response.output_text.delta", "/delta", json!("J")),
        ("response.output_text.done", "/text", json!("Hell")),
        ("response.content_part.done", "/part/text", json!("Hell")),
        ("response.reasoning_summary_text.delta", "/summary_index", json!(1)),
        ("response.function_call_arguments.done", "/arguments", json!("{")),
        ("response.function_call_arguments.delta", "/type", json!("response.unknown")),
        ("response.completed", "/response/status", json!("incomplete")),
        ("response.completed", "/response/completed_at", Value::Null),
        ("response.completed", "/response/error", json!({})),
        ("response.completed", "/response/incomplete_details", json!({"reason": "max_output_tokens"})),
        ("response.completed", "/response/output/2/content/0/text", json!("Hell")),
        ("response.completed", "/response/output/3/status", json!("incomplete")),
    ];
    for (kind, pointer, value) in changes {
        let mut events = whole();
        let at = position(&events, kind);
        *events[at].pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer} in {kind}")) = value.clone();
        assert_ne!(broken_rules(&events), Vec::<String>::new(), "{kind}{pointer} = {value}");
    }
    let mut events = whole();
    events[0]["response"].as_object_mut().unwrap().remove("prompt_cache_key");
    assert_eq!(broken_rules(&events), ["0: a response has prompt_cache_key"]);
}

#[test]
fn only_the_end_of_a_response_without_an_answer_may_leave_a_call_open() {
    let deltas = [text("So"), call(0, Some("f"), "{")];
    let frames = stream(about(&json!({})), None, &deltas, &ending(failed()));
    let mut events: Vec<Value> = frames.iter().map(data).collect();
    let last = events.len() - 1;
    events[last]["type"] = json!("response.completed");
    for (name, value) in [("status", json!("completed")), ("error", Value::Null), ("completed_at", json!(1))] {
        events[last]["response"][name] = value;
    }
    let broken = broken_rules(&events);
    assert!(broken.iter().any(|rule| rule.ends_with("every item that was added has ended")), "{broken:?}");
}

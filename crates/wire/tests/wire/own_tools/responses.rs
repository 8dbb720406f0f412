//! Items and events of responses. A stream ends with the items that a later reader gets.

use herma_model::{CallStatus, Delta, MessageStatus, Step};
use herma_testkit::check_response_stream;
use herma_wire::chat::whole_answer_deltas;
use herma_wire::responses::{
    Ending, Events, Item, ResponseOutcome, ResponseState, items_of, items_with_results, message_of_item, output,
    without_item,
};
use serde_json::{Value, json};

use super::{asking, calling, id, late_result, own, result, said, stored, waiting};
use crate::responses::{about, call, ending, failed, reasoning, text};

/// What is told of a turn, in order.
enum Told {
    Delta(Delta),
    /// A step, and the number of the next model message.
    Step(Step, u128),
}

use Told::{Delta as Shown, Step as Made};

/// The events of a turn whose first message has this number.
fn stream(first: u128, told: &[Told], outcome: ResponseOutcome) -> Vec<Value> {
    let (mut events, mut frames) = Events::begin(about(&json!({})), id(first), None);
    frames.extend(events.started());
    for told in told {
        frames.extend(match told {
            Shown(delta) => events.delta(delta),
            Made(step, next) => events.step(step, id(*next)),
        });
    }
    frames.extend(events.end(&Ending { ..ending(outcome) }, None));
    let events: Vec<Value> = frames
        .iter()
        .map(|frame| {
            let text = std::str::from_utf8(&frame.bytes).unwrap();
            serde_json::from_str(text.split_once("data: ").unwrap().1.trim_end()).unwrap()
        })
        .collect();
    check_response_stream(&events);
    events
}

fn last_output(events: &[Value]) -> Value {
    events.last().unwrap()["response"]["output"].clone()
}

fn read_again(steps: &[Step], outcome: ResponseOutcome) -> Value {
    serde_json::to_value(output(steps, &ResponseState::Ended(outcome))).unwrap()
}

/// The names of the events about calls, with the places of their items.
fn shown_calls(events: &[Value]) -> String {
    let lines = events.iter().filter_map(|event| {
        let kind = event["type"].as_str()?.strip_prefix("response.")?;
        let item = &event["item"];
        let is_call = kind.starts_with("mcp") || item["type"].as_str().is_some_and(|kind| kind.starts_with("mcp"));
        let said = if item.is_null() { &event["delta"] } else { item };
        is_call.then(|| format!("{} {kind} {said}", event["output_index"]))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_call_is_an_item_that_ends_with_its_result() {
    let first = said(10, &calling(Some("Let me see."), &["a", "b"]), &[own("a"), own("b")]);
    let steps = vec![
        first.clone(),
        result(11, "b", CallStatus::Failed, "no such file"),
        result(12, "a", CallStatus::Done, "hello"),
        said(13, &crate::text_answer("Done."), &[]),
    ];
    let events = stream(
        10,
        &[
            Shown(text("Let me ")),
            Shown(text("see.")),
            Made(first, 11),
            Made(steps[1].clone(), 12),
            Made(steps[2].clone(), 13),
            Shown(text("Done.")),
        ],
        ResponseOutcome::Completed,
    );
    assert_eq!(last_output(&events), read_again(&steps, ResponseOutcome::Completed));
    insta::assert_snapshot!(shown_calls(&events).replace("00000000000000000000000000", "<…>"), @r#"
    1 output_item.added {"type":"mcp_call","id":"mcp_<…>00000a_0","status":"in_progress","server_label":"files","name":"read","arguments":"","output":null,"error":null}
    1 mcp_call.in_progress null
    1 mcp_call_arguments.delta "{\"path\":\"a\"}"
    1 mcp_call_arguments.done null
    2 output_item.added {"type":"mcp_call","id":"mcp_<…>00000a_1","status":"in_progress","server_label":"files","name":"read","arguments":"","output":null,"error":null}
    2 mcp_call.in_progress null
    2 mcp_call_arguments.delta "{\"path\":\"b\"}"
    2 mcp_call_arguments.done null
    2 mcp_call.failed null
    2 output_item.done {"type":"mcp_call","id":"mcp_<…>00000a_1","status":"failed","server_label":"files","name":"read","arguments":"{\"path\":\"b\"}","output":null,"error":{"type":"mcp_tool_execution_error","content":[{"type":"text","text":"no such file"}],"message":"no such file"}}
    1 mcp_call.completed null
    1 output_item.done {"type":"mcp_call","id":"mcp_<…>00000a_0","status":"completed","server_label":"files","name":"read","arguments":"{\"path\":\"a\"}","output":"hello","error":null}
    "#);
}

#[test]
fn texts_and_reasoning_of_each_message_are_items_with_its_id() {
    let mut one = calling(Some("One."), &["a"]);
    one.extra = crate::map(json!({"reasoning_content": "Hm."}));
    let mut two = crate::text_answer("Two.");
    two.extra = crate::map(json!({"reasoning_content": "Aha."}));
    let steps = vec![said(10, &one, &[own("a")]), result(11, "a", CallStatus::Done, "1"), said(12, &two, &[])];
    let events = stream(
        10,
        &[
            Shown(reasoning("Hm.")),
            Shown(text("One.")),
            Made(steps[0].clone(), 11),
            Made(steps[1].clone(), 12),
            Shown(reasoning("Aha.")),
            Shown(text("Two.")),
        ],
        ResponseOutcome::Completed,
    );
    let output = last_output(&events);
    assert_eq!(output, read_again(&steps, ResponseOutcome::Completed));
    let kinds: Vec<_> = output.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["reasoning", "message", "mcp_call", "reasoning", "message"]);
}

#[test]
fn calls_of_the_clients_tools_come_after_herma_has_made_its_own() {
    let mut answer = calling(Some("Both."), &["client", "a"]);
    answer.tool_calls[0].name = "ask_user".to_owned();
    let steps = vec![said(10, &answer, &[own("a")]), result(11, "a", CallStatus::Done, "1")];
    let held = herma_model::Answer { tool_calls: vec![answer.tool_calls[0].clone()], ..crate::text_answer("") };
    let held = herma_model::Answer { content: None, ..held };
    let mut told = vec![Shown(text("Both.")), Made(steps[0].clone(), 11), Made(steps[1].clone(), 12)];
    told.extend(whole_answer_deltas(&held).into_iter().map(Shown));
    let events = stream(10, &told, ResponseOutcome::Completed);
    let output = last_output(&events);
    assert_eq!(output, read_again(&steps, ResponseOutcome::Completed));
    let ids: Vec<_> = output.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
    let hex = id(10).uuid().simple().to_string();
    assert_eq!(ids, [format!("msg_{hex}"), format!("mcp_{hex}_0"), format!("fc_{hex}_0")]);
}

#[test]
fn a_question_ends_the_response_and_the_call_is_an_item_of_the_next() {
    let steps = vec![said(10, &calling(None, &["a", "b"]), &[waiting("a"), asking("b")])];
    let events = stream(10, &[Made(steps[0].clone(), 11)], ResponseOutcome::Completed);
    assert_eq!(last_output(&events), read_again(&steps, ResponseOutcome::Completed));
    let hex = id(10).uuid().simple().to_string();
    let question = json!([{
        "type": "mcp_approval_request", "id": format!("mcpr_{hex}_1"), "status": "completed", "server_label": "files",
        "name": "read", "arguments": r#"{"path":"b"}"#,
    }]);
    assert_eq!(last_output(&events), question);

    let steps = vec![late_result(20, "a", "1"), late_result(21, "b", "2"), said(22, &crate::text_answer("Done."), &[])];
    let told = [Made(steps[0].clone(), 21), Made(steps[1].clone(), 22), Shown(text("Done."))];
    let events = stream(20, &told, ResponseOutcome::Completed);
    assert_eq!(last_output(&events), read_again(&steps, ResponseOutcome::Completed));
    let hex = id(20).uuid().simple().to_string();
    assert_eq!(
        last_output(&events)[0],
        json!({
            "type": "mcp_call", "id": format!("mcp_{hex}_0"), "status": "completed", "server_label": "files",
            "name": "write", "arguments": r#"{"path":"late"}"#, "output": "1", "error": null,
        })
    );
}

#[test]
fn a_turn_that_dies_leaves_its_open_calls_uncertain_and_keeps_what_was_stored() {
    let mut answer = calling(Some("One."), &["a", "b"]);
    answer.extra = crate::map(json!({"reasoning_content": "Hm."}));
    let first = said(10, &answer, &[own("a"), own("b")]);
    let done = result(11, "a", CallStatus::Done, "1");
    let told = [Shown(reasoning("Hm.")), Shown(text("One.")), Made(first.clone(), 11), Made(done.clone(), 12)];
    let events = stream(10, &told, failed());
    // The end of the turn has written this.
    let uncertain = result(12, "b", CallStatus::Uncertain, herma_model::tool::UNCERTAIN);
    assert_eq!(last_output(&events), read_again(&[first, done, uncertain], failed()));
}

#[test]
fn what_a_dead_turn_was_saying_is_incomplete_and_its_calls_are_dropped() {
    let first = said(10, &calling(None, &["a"]), &[own("a")]);
    let done = result(11, "a", CallStatus::Done, "1");
    let partial = herma_model::Utterance::partial_text("So far");
    let told = [
        Made(first.clone(), 11),
        Made(done.clone(), 12),
        Shown(reasoning("Hm.")),
        Shown(text("So far")),
        Shown(call(0, Some("f"), "{")),
    ];
    let events = stream(10, &told, failed());
    assert_eq!(last_output(&events), read_again(&[first, done, Step::Said(stored(12, partial))], failed()));
}

#[test]
fn a_call_of_a_running_turn_is_in_progress() {
    let steps = [said(10, &calling(None, &["a"]), &[own("a")])];
    let items = output(&steps, &ResponseState::InProgress);
    assert_eq!(serde_json::to_value(&items).unwrap()[0]["status"], "in_progress");
    assert_eq!(read_again(&steps, failed())[0]["status"], "incomplete");
}

#[test]
fn a_list_of_items_has_each_call_once_with_its_result() {
    let message = said(10, &calling(Some("One."), &["a"]), &[own("a")]);
    let (Step::Said(message), Step::ToolResult(result)) = (message, result(11, "a", CallStatus::Denied, "no")) else {
        panic!("these are messages");
    };
    let items = serde_json::to_value(items_with_results(&message, [&*result])).unwrap();
    let denied = json!({"type": "mcp_protocol_error", "code": -32000, "message": "no"});
    assert_eq!((&items[1]["status"], &items[1]["error"]), (&json!("failed"), &denied));
    assert_eq!(items_of(&result), []);
    let ids: Vec<String> = items_of(&message).iter().map(|item| item.id().to_owned()).collect();
    assert!(ids.iter().all(|item| message_of_item(item) == Some(id(10))), "{ids:?}");
    assert_eq!(without_item(&message.said, id(10), &ids[1]), None, "its result would be left alone");
    let rest = without_item(&message.said, id(10), &ids[0]).unwrap().unwrap();
    assert_eq!((rest.own_calls(), rest.status), (vec![own("a")], MessageStatus::Complete));
    assert!(matches!(items_of(&stored(10, rest))[..], [Item::McpCall { .. }]));
}

//! Events of runs and chats.

use herma_model::{ApprovalAnswer, ApprovalChoice, CallStatus, Delta, OwnCall, RunId, SessionId, Step, Timestamp};
use herma_wire::chat::JoinedTexts;
use herma_wire::own_tools::{CallEvent, CallEvents};
use herma_wire::resource::MessageRow;
use herma_wire::runs::{PendingCall, RunEvents, RunObject, RunOutput, RunState, approval_response};
use herma_wire::session_chat::ChatEvents;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{asking, calling, late_result, own, result, said, waiting};
use crate::responses::text;

const RUN: RunId = RunId::from_uuid(Uuid::from_u128(3));

fn answered(call: OwnCall, choice: ApprovalChoice, order: u32) -> Step {
    Step::Answered(call, ApprovalAnswer::given(choice, order))
}

/// The events of steps, one per line.
fn events(steps: &[Step]) -> String {
    let mut events = RunEvents::new(RUN);
    let frames = steps.iter().flat_map(|step| events.step(step, &SessionId::from_name("s")));
    let lines = frames.map(|frame| {
        let text = String::from_utf8(frame.bytes.to_vec()).unwrap();
        text.trim_end().replace("\ndata: ", " ").replace(&RUN.to_string(), "run_<hex>")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_call_starts_and_completes() {
    let steps = [
        said(10, &calling(None, &["a", "b"]), &[own("a"), own("b")]),
        result(11, "b", CallStatus::Failed, "no such file"),
        result(12, "a", CallStatus::Done, "hello"),
    ];
    insta::assert_snapshot!(events(&steps), @r#"
    id: 0 {"event":"tool.started","run_id":"run_<hex>","tool":"read","server":"files","call_id":"a","arguments":"{\"path\":\"a\"}","preview":"{\"path\":\"a\"}"}
    id: 1 {"event":"tool.started","run_id":"run_<hex>","tool":"read","server":"files","call_id":"b","arguments":"{\"path\":\"b\"}","preview":"{\"path\":\"b\"}"}
    id: 2 {"event":"tool.completed","run_id":"run_<hex>","tool":"read","server":"files","call_id":"b","duration":1.5,"error":true,"status":"failed","preview":"no such file"}
    id: 3 {"event":"tool.completed","run_id":"run_<hex>","tool":"read","server":"files","call_id":"a","duration":1.5,"error":false,"status":"done","preview":"hello"}
    "#);
}

#[test]
fn calls_wait_for_all_answers_and_a_denied_one_never_starts() {
    let calls = [asking("a"), waiting("b"), asking("c")];
    let steps = [
        said(10, &calling(None, &["a", "b", "c"]), &calls),
        answered(asking("c"), ApprovalChoice::Deny, 0),
        answered(asking("a"), ApprovalChoice::Session, 1),
        result(11, "c", CallStatus::Denied, "no"),
        result(12, "b", CallStatus::Done, "1"),
        result(13, "a", CallStatus::Done, "2"),
    ];
    insta::assert_snapshot!(events(&steps), @r#"
    id: 0 {"event":"approval.request","run_id":"run_<hex>","tool":"read","server":"files","call_id":"a","arguments":"{\"path\":\"a\"}","preview":"{\"path\":\"a\"}","choices":["once","session","always","deny"]}
    id: 1 {"event":"approval.request","run_id":"run_<hex>","tool":"read","server":"files","call_id":"c","arguments":"{\"path\":\"c\"}","preview":"{\"path\":\"c\"}","choices":["once","session","always","deny"]}
    id: 2 {"event":"approval.responded","run_id":"run_<hex>","tool":"read","server":"files","call_id":"c","choice":"deny"}
    id: 3 {"event":"approval.responded","run_id":"run_<hex>","tool":"read","server":"files","call_id":"a","choice":"session"}
    id: 4 {"event":"tool.started","run_id":"run_<hex>","tool":"read","server":"files","call_id":"a","arguments":"{\"path\":\"a\"}","preview":"{\"path\":\"a\"}"}
    id: 5 {"event":"tool.started","run_id":"run_<hex>","tool":"read","server":"files","call_id":"b","arguments":"{\"path\":\"b\"}","preview":"{\"path\":\"b\"}"}
    id: 6 {"event":"tool.completed","run_id":"run_<hex>","tool":"read","server":"files","call_id":"c","duration":1.5,"error":true,"status":"denied","preview":"no"}
    id: 7 {"event":"tool.completed","run_id":"run_<hex>","tool":"read","server":"files","call_id":"b","duration":1.5,"error":false,"status":"done","preview":"1"}
    id: 8 {"event":"tool.completed","run_id":"run_<hex>","tool":"read","server":"files","call_id":"a","duration":1.5,"error":false,"status":"done","preview":"2"}
    "#);
}

#[test]
fn a_call_whose_question_nobody_answered_starts_just_before_its_end_if_it_is_made() {
    let steps = [
        said(10, &calling(None, &["a", "b"]), &[asking("a"), waiting("b")]),
        result(11, "a", CallStatus::Denied, "no"),
        result(12, "b", CallStatus::Done, "1"),
        late_result(13, "z", "2"),
    ];
    let mut machine = CallEvents::default();
    let names = steps.iter().flat_map(|step| machine.step(step)).map(|event| match event {
        CallEvent::Asked(call) => format!("asked {}", call.own.id),
        CallEvent::Responded(call, _) => format!("responded {}", call.id),
        CallEvent::Started(call) => format!("started {}", call.own.id),
        CallEvent::Ended(call, _) => format!("ended {} of {}", call.own.id, call.own.tool),
    });
    let expected = ["asked a", "ended a of read", "started b", "ended b of read", "started z", "ended z of write"];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn a_waiting_run_says_what_it_waits_for() {
    let call = asking("a");
    let pending = [PendingCall { call: &call, arguments: "{}", asked_at: Timestamp(7_000) }];
    let session = crate::session();
    let object = RunObject {
        id: RUN,
        state: &RunState::WaitingForApproval,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        model: "m",
        echo: &Default::default(),
        output: &RunOutput::default(),
        pending: &pending,
        memory: None,
        session: &session,
    };
    let json: Value = serde_json::from_slice(&object.to_json()).unwrap();
    assert_eq!(json["status"], "waiting_for_approval");
    let expected = json!([{"call_id": "a", "tool": "read", "server": "files", "arguments": "{}", "asked_at": 7}]);
    assert_eq!(json["pending_approvals"], expected);
    let answer: Value = serde_json::from_slice(&approval_response(RUN, "a", ApprovalChoice::Once, "running")).unwrap();
    let expected = json!({
        "object": "hermes.run.approval_response", "run_id": RUN.to_string(), "call_id": "a", "choice": "once",
        "status": "running",
    });
    assert_eq!(answer, expected);
}

#[test]
fn a_session_chat_has_hermes_names_for_calls() {
    let (mut chat, _) = ChatEvents::begin(RUN, &crate::session(), Timestamp(0));
    let mut machine = CallEvents::default();
    let steps = [
        said(10, &calling(None, &["a", "b"]), &[own("a"), own("b")]),
        result(11, "a", CallStatus::Done, "1"),
        result(12, "b", CallStatus::Uncertain, "?"),
    ];
    let events: Vec<_> = steps.iter().flat_map(|step| machine.step(step)).collect();
    let frames = events.iter().filter_map(|event| chat.call(event, Timestamp(1_000)));
    let shown: String = frames.map(|frame| String::from_utf8(frame.to_vec()).unwrap()).collect();
    insta::assert_snapshot!(shown.replace(&RUN.to_string(), "run_<hex>").replace("\n\n", "\n"), @r#"
    event: tool.started
    data: {"session_id":"s2","run_id":"run_<hex>","seq":2,"ts":1.0,"tool_call_id":"a","tool_name":"read","server":"files","preview":"{\"path\":\"a\"}","args":{"path":"a"}}
    event: tool.started
    data: {"session_id":"s2","run_id":"run_<hex>","seq":3,"ts":1.0,"tool_call_id":"b","tool_name":"read","server":"files","preview":"{\"path\":\"b\"}","args":{"path":"b"}}
    event: tool.completed
    data: {"session_id":"s2","run_id":"run_<hex>","seq":4,"ts":1.0,"tool_call_id":"a","tool_name":"read","server":"files","preview":"1","duration":1.5,"error":false}
    event: tool.failed
    data: {"session_id":"s2","run_id":"run_<hex>","seq":5,"ts":1.0,"tool_call_id":"b","tool_name":"read","server":"files","preview":"?","duration":1.5,"error":true}
    "#);
    let frames: Vec<_> = events.iter().filter_map(CallEvent::chat_frame).collect();
    assert!(frames[0].starts_with(b"event: tool.started\ndata: {\"tool\":\"read\""), "{frames:?}");
    assert!(frames[3].starts_with(b"event: tool.completed\n"), "{frames:?}");
}

#[test]
fn a_blank_line_stands_between_texts_and_nowhere_else() {
    let step = said(10, &calling(None, &["a"]), &[own("a")]);
    let joined = |texts: &[Option<&str>]| {
        let mut machine = JoinedTexts::default();
        let mut shown = String::new();
        for text_or_step in texts {
            match text_or_step {
                None => machine.step(&step),
                Some(piece) => {
                    let separator: Option<Delta> = machine.separator(&text(piece));
                    shown.extend(separator.and_then(|delta| delta.content));
                    shown.push_str(piece);
                }
            }
        }
        shown
    };
    assert_eq!(joined(&[Some("a"), Some("b"), None, Some(""), Some("c"), Some("d")]), "ab\n\ncd");
    assert_eq!(joined(&[Some("a"), None, None, Some("b")]), "a\n\nb");
    assert_eq!(joined(&[None, Some("a"), None]), "a");
}

#[test]
fn rows_of_messages_name_the_calls_and_how_they_ended() {
    let row = |step: Step| {
        let message = step.stored_message().unwrap().clone();
        serde_json::to_value(MessageRow::from(&*message)).unwrap()
    };
    let said = row(said(10, &calling(None, &["a"]), &[own("a")]));
    assert_eq!(said["own_calls"], json!([{"id": "a", "server": "files", "tool": "read"}]));
    assert_eq!((&said["tool_calls"][0]["id"], said.get("extra")), (&json!("a"), None));
    let ended = row(result(11, "a", CallStatus::NotMade, "no"));
    assert_eq!((&ended["tool_status"], &ended["duration_ms"]), (&json!("not_made"), &json!(1500)));
}

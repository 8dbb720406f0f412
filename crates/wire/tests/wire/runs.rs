//! The Runs API.

use std::borrow::Cow;

use herma_model::turn::FailureCode;
use herma_model::{ApprovalChoice, CompactionId, Delta, RunId, SessionId, SessionKind, Timestamp, TurnFailure};
use herma_wire::responses::{Echo, Known, ResponseError, parse as parse_response};
use herma_wire::runs::{
    ApprovalTarget, RunApproval, RunEnding, RunEvents, RunObject, RunOutput, RunRequest, RunState, parse,
    parse_approval,
};
use herma_wire::sse::Frame;
use herma_wire::{BadRequest, chat};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::responses::{call, reasoning, refusal, text};

const RUN: RunId = RunId::from_uuid(Uuid::from_u128(3));
const CREATED: Timestamp = Timestamp(1_772_582_400_500);

fn read(body: &Value) -> Result<RunRequest, BadRequest> {
    parse(body.to_string().as_bytes(), &Known::default())
}

fn refused(body: &Value) -> String {
    let bad = read(body).unwrap_err();
    format!("{} {} — {}", bad.code, bad.param.as_deref().unwrap_or("-"), bad.message)
}

fn refused_with<const N: usize>(fields: [Value; N]) -> String {
    let bodies = fields.map(|mut body| {
        body["input"] = json!("hi");
        refused(&body)
    });
    bodies.join("\n")
}

fn error(code: &str, message: &str) -> ResponseError {
    ResponseError { code: code.to_owned(), message: message.to_owned() }
}

fn object(state: &RunState, output: &RunOutput<'_>, echo: &Echo) -> String {
    let session = crate::session();
    let object = RunObject {
        id: RUN,
        state,
        created_at: CREATED,
        updated_at: Timestamp(1_772_582_402_000),
        model: "gpt-5",
        echo,
        output,
        pending: &[],
        memory: None,
        session: &session,
    };
    String::from_utf8(object.to_json()).unwrap()
}

/// Begins a stream, sends the deltas and ends it.
fn stream(deltas: &[Delta], ending: &RunEnding, output: &RunOutput<'_>) -> Vec<Frame> {
    let mut events = RunEvents::new(RUN);
    let mut frames = events.started(CREATED, &crate::session());
    frames.extend(deltas.iter().flat_map(|delta| events.delta(delta)));
    frames.extend(events.end(ending, output, Some(&crate::session())));
    frames
}

/// The frames as they are sent, with shortened ids and without sessions.
fn shown(frames: &[Frame]) -> String {
    let whole: String = frames.iter().map(|frame| std::str::from_utf8(&frame.bytes).unwrap()).collect();
    let session = serde_json::to_string(&crate::session()).unwrap();
    whole.replace(&RUN.to_string(), "run_<hex>").replace(&session, "{…}").replace("\n\n", "\n")
}

#[test]
fn a_run_is_asked_for_like_a_response() {
    let body = json!({
        "input": "hi", "instructions": "Be terse.", "model": "gpt-5", "conversation": {"id": "trip"}, "temperature": 0.5,
        "tools": [{"type": "function", "name": "f"}], "user": "u", "metadata": {"a": "b"},
    });
    let run = read(&body).unwrap();
    assert_eq!((run.session_id, run.session_key, run.kind), (None, None, None));
    assert_eq!(run.request, parse_response(body.to_string().as_bytes()).unwrap());
}

#[test]
fn a_run_names_its_session_its_key_and_its_kind() {
    for (name, kind) in
        [("main", SessionKind::Main), ("auxiliary", SessionKind::Auxiliary), ("background", SessionKind::Background)]
    {
        let run = read(&json!({"input": "hi", "session_id": "s1", "session_key": "agent:1", "kind": name})).unwrap();
        assert_eq!((run.session_id.as_deref(), run.session_key.as_deref()), (Some("s1"), Some("agent:1")));
        assert_eq!(run.kind, Some(kind));
    }
    let run =
        read(&json!({"input": "hi", "session_id": "", "session_key": "", "kind": null, "conversation_history": []}));
    let run = run.unwrap();
    assert_eq!((run.session_id, run.session_key, run.kind), (None, None, None));
}

#[test]
fn an_input_may_be_chat_messages() {
    let messages = json!([
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": [
            {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "https://a"}}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
        {"role": "user", "content": "Go on."},
    ]);
    let run = read(&json!({ "input": messages })).unwrap().request;
    let chat = chat::parse(json!({ "messages": messages }).to_string().as_bytes()).unwrap();
    assert_eq!((run.system, run.messages, run.indices), (chat.system, chat.messages, chat.indices));
}

#[test]
fn items_and_messages_stand_side_by_side() {
    let run = read(&json!({"input": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"role": "assistant", "tool_calls": [{"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"type": "function_call_output", "call_id": "a", "output": "r"},
        {"role": "tool", "tool_call_id": "b", "content": "s"},
    ]}));
    let run = run.unwrap().request;
    let payloads: Vec<_> = run.messages.iter().map(|said| said.payload.as_json()).collect();
    insta::assert_snapshot!(payloads.join("\n"), @r#"
    {"role":"user","content":"hi"}
    {"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}
    {"role":"assistant","content":null,"tool_calls":[{"id":"b","type":"function","function":{"name":"g","arguments":""}}]}
    {"role":"tool","content":"r","tool_call_id":"a"}
    {"role":"tool","content":"s","tool_call_id":"b"}
    "#);
    assert_eq!(run.indices, [0, 1, 2, 3, 4]);
}

#[test]
fn what_a_run_cannot_be_is_refused_by_name() {
    insta::assert_snapshot!(refused_with([
        json!({"kind": "branch"}),
        json!({"kind": "continuation"}),
        json!({"kind": "daily"}),
        json!({"kind": 7}),
        json!({"session_id": 7}),
        json!({"session_key": []}),
        json!({"conversation_history": [{"role": "user", "content": "hi"}]}),
        json!({"conversation": "a", "previous_response_id": "resp_1"}),
        json!({"temperature": "hot"}),
    ]), @r#"
    invalid_request kind — `kind` must not be branch: POST /api/sessions/{id}/branch makes one, and session_id then names it
    invalid_request kind — `kind` must not be continuation: only a compaction makes one
    invalid_request kind — `kind` must be main, auxiliary or background
    invalid_request kind — `kind` must be a string
    invalid_request session_id — `session_id` must be a string
    invalid_request session_key — `session_key` must be a string
    invalid_request conversation_history — `conversation_history` is not supported: the history is the stored transcript of the session that session_id names
    conversation_and_previous_response previous_response_id — `previous_response_id` must not be given together with conversation: a request continues one or the other
    invalid_request temperature — `temperature` must be a number
    "#);
    insta::assert_snapshot!([
        json!({}),
        json!({"input": []}),
        json!({"input": [{"role": "tool", "content": "r"}]}),
        json!({"input": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}),
        json!({"input": [{"role": "user", "content": [{"type": "image_url", "image_url": "https://a"}]}]}),
    ].map(|body| refused(&body)).join("\n"), @r#"
    invalid_request input — `input` is required and must not be empty
    invalid_request input — `input` is required and must not be empty
    invalid_request input[0].tool_call_id — `input[0].tool_call_id` is required
    invalid_request input[0].tool_calls[0].function — `input[0].tool_calls[0].function` is required
    invalid_request input[0].content[0].image_url — `input[0].content[0].image_url` must be an object
    "#);
}

#[test]
fn a_run_says_how_it_stands() {
    let echo = parse_response(br#"{"input":"hi","instructions":"Be \"terse\".","metadata":{"a":"b"}}"#).unwrap().echo;
    let mut answer = crate::rich_answer();
    answer.content = Some("Let me see.".into());
    let completed = RunState::Ended(RunEnding::Completed);
    insta::assert_snapshot!(object(&completed, &RunOutput::from(&answer), &echo), @r#"{"object":"hermes.run","id":"run_00000000000000000000000000000003","run_id":"run_00000000000000000000000000000003","status":"completed","created_at":1772582400,"updated_at":1772582402,"model":"gpt-5","session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","output":"Let me see.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"},"extra_content":{"signature":"s"}}],"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15},"error":null,"error_code":null,"instructions":"Be \"terse\".","metadata":{"a":"b"},"session":{"conversation_id":"conv_00000000000000000000000000000001","session_id":"s2","requested_id":"s1","resolution":"moved","rotated":false,"provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}}"#);
    insta::assert_snapshot!(object(&RunState::Queued, &RunOutput::default(), &Echo::default()), @r#"{"object":"hermes.run","id":"run_00000000000000000000000000000003","run_id":"run_00000000000000000000000000000003","status":"queued","created_at":1772582400,"updated_at":1772582402,"model":"gpt-5","session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","output":null,"usage":null,"error":null,"error_code":null,"session":{"conversation_id":"conv_00000000000000000000000000000001","session_id":"s2","requested_id":"s1","resolution":"moved","rotated":false,"provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}}"#);
    let partial = RunOutput { text: Some(Cow::Borrowed("So far")), ..RunOutput::default() };
    let failed = RunState::Ended(RunEnding::Failed(error("upstream_error", "the model server answered 500")));
    insta::assert_snapshot!(object(&failed, &partial, &Echo::default()), @r#"{"object":"hermes.run","id":"run_00000000000000000000000000000003","run_id":"run_00000000000000000000000000000003","status":"failed","created_at":1772582400,"updated_at":1772582402,"model":"gpt-5","session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","output":"So far","usage":null,"error":"the model server answered 500","error_code":"upstream_error","session":{"conversation_id":"conv_00000000000000000000000000000001","session_id":"s2","requested_id":"s1","resolution":"moved","rotated":false,"provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}}"#);
}

#[test]
fn every_state_has_a_name() {
    let why = || error("x", "y");
    let names = [
        RunState::Queued,
        RunState::Running,
        RunState::WaitingForApproval,
        RunState::Stopping,
        RunState::Ended(RunEnding::Completed),
        RunState::Ended(RunEnding::Failed(why())),
        RunState::Ended(RunEnding::Cancelled),
        RunState::Ended(RunEnding::Interrupted(why())),
    ]
    .map(|state| state.status());
    let expected =
        ["queued", "running", "waiting_for_approval", "stopping", "completed", "failed", "cancelled", "interrupted"];
    assert_eq!(names, expected);
}

#[test]
fn a_turn_without_an_answer_says_how_its_run_ended() {
    let ending = |code| RunEnding::from(&TurnFailure::new(code, "why"));
    let why = |code| error(code, "why");
    assert_eq!(ending(FailureCode::Cancelled), RunEnding::Cancelled);
    for code in [FailureCode::Interrupted, FailureCode::Abandoned] {
        assert_eq!(ending(code), RunEnding::Interrupted(why("interrupted")));
    }
    for code in [FailureCode::UpstreamError, FailureCode::UpstreamTimeout, FailureCode::ContextLengthExceeded] {
        assert_eq!(ending(code), RunEnding::Failed(why(code.as_str())));
    }
}

#[test]
fn an_approval_makes_a_choice() {
    use ApprovalChoice::{Always, Deny, Once, Session};
    let words = [("once", Once), ("session", Session), ("always", Always), ("deny", Deny)];
    let aliases = [("approve", Once), ("approved", Once), ("allow", Once)];
    for (word, choice) in words.into_iter().chain(aliases) {
        for (fields, about) in [
            (json!({}), ApprovalTarget::Oldest),
            (json!({"all": true, "resolve_all": null}), ApprovalTarget::All),
            (json!({"resolve_all": true}), ApprovalTarget::All),
            (json!({"call_id": "call_1", "all": false}), ApprovalTarget::Call("call_1".into())),
        ] {
            let mut body = fields;
            body["choice"] = json!(word);
            assert_eq!(parse_approval(body.to_string().as_bytes()), Ok(RunApproval { choice, about }));
        }
    }
    let both = r#"{"choice":"deny","all":true,"call_id":"c"}"#;
    let refused =
        ["{}", r#"{"choice":"Once"}"#, r#"{"choice":1}"#, r#"{"choice":"deny","all":"yes"}"#, both, "[]", "{"]
            .map(|body| parse_approval(body.as_bytes()).unwrap_err().to_string());
    insta::assert_snapshot!(refused.join("\n"), @r"
    `choice` is required
    `choice` must be once, session, always or deny
    `choice` must be a string
    `all` must be true or false
    `call_id` must not be given together with all
    the request body must be a JSON object
    the request body is not valid JSON: EOF while parsing an object at line 1 column 1
    ");
}

#[test]
fn the_output_is_all_that_was_said() {
    let both = herma_model::Answer { refusal: Some("No.".into()), ..crate::text_answer("Well. ") };
    assert_eq!(RunOutput::from(&both).text.as_deref(), Some("Well. No."));
    let refused = herma_model::Answer { content: None, ..both };
    assert_eq!(RunOutput::from(&refused).text.as_deref(), Some("No."));
    assert_eq!(RunOutput::from(&crate::rich_answer()).text, None);
}

#[test]
fn a_stream_in_full() {
    let answer = crate::text_answer("Hello!");
    let frames = stream(&[text("Hel"), text(""), text("lo!")], &RunEnding::Completed, &RunOutput::from(&answer));
    let numbers: Vec<u64> = frames.iter().map(|frame| frame.number).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    let whole: String = frames.iter().map(|frame| std::str::from_utf8(&frame.bytes).unwrap()).collect();
    insta::assert_snapshot!(whole, @r#"
    id: 0
    data: {"event":"run.started","run_id":"run_00000000000000000000000000000003","created_at":1772582400,"session":{"conversation_id":"conv_00000000000000000000000000000001","session_id":"s2","requested_id":"s1","resolution":"moved","rotated":false,"provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}}

    id: 1
    data: {"event":"message.delta","run_id":"run_00000000000000000000000000000003","delta":"Hel"}

    id: 2
    data: {"event":"message.delta","run_id":"run_00000000000000000000000000000003","delta":"lo!"}

    id: 3
    data: {"event":"run.completed","run_id":"run_00000000000000000000000000000003","output":"Hello!","usage":null,"session":{"conversation_id":"conv_00000000000000000000000000000001","session_id":"s2","requested_id":"s1","resolution":"moved","rotated":false,"provenance":{"session_id":"s2","conversation_id":"conv_00000000000000000000000000000001","root_session_id":"s2","kind":"main","origin_kind":"main","creator_kind":"api","compression_depth":0,"compaction_count":0,"is_user_facing":true}}}
    "#);
}

#[test]
fn reasoning_is_available_when_something_follows_it() {
    let deltas = [
        reasoning("They "),
        reasoning("greet."),
        text("Hi"),
        refusal("No."),
        reasoning("Hm."),
        call(0, Some("f"), "{}"),
    ];
    let answer = crate::rich_answer();
    insta::assert_snapshot!(shown(&stream(&deltas, &RunEnding::Completed, &RunOutput::from(&answer))), @r#"
    id: 0
    data: {"event":"run.started","run_id":"run_<hex>","created_at":1772582400,"session":{…}}
    id: 1
    data: {"event":"reasoning.delta","run_id":"run_<hex>","delta":"They "}
    id: 2
    data: {"event":"reasoning.delta","run_id":"run_<hex>","delta":"greet."}
    id: 3
    data: {"event":"reasoning.available","run_id":"run_<hex>","text":"They greet."}
    id: 4
    data: {"event":"message.delta","run_id":"run_<hex>","delta":"Hi"}
    id: 5
    data: {"event":"message.delta","run_id":"run_<hex>","delta":"No."}
    id: 6
    data: {"event":"reasoning.delta","run_id":"run_<hex>","delta":"Hm."}
    id: 7
    data: {"event":"reasoning.available","run_id":"run_<hex>","text":"Hm."}
    id: 8
    data: {"event":"run.completed","run_id":"run_<hex>","output":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Köln\"}"},"extra_content":{"signature":"s"}}],"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15},"session":{…}}
    "#);
}

#[test]
fn a_compaction_is_an_event_between_the_pieces() {
    let mut events = RunEvents::new(RUN);
    let mut frames = events.delta(&reasoning("Hm."));
    frames.extend(events.compacted(CompactionId::from_uuid(Uuid::from_u128(7)), &SessionId::from_name("s2")));
    insta::assert_snapshot!(shown(&frames), @r#"
    id: 0
    data: {"event":"reasoning.delta","run_id":"run_<hex>","delta":"Hm."}
    id: 1
    data: {"event":"reasoning.available","run_id":"run_<hex>","text":"Hm."}
    id: 2
    data: {"event":"session.compacted","run_id":"run_<hex>","compaction_id":"cmp_00000000000000000000000000000007","session_id":"s2"}
    "#);
}

#[test]
fn a_stream_ends_in_one_of_four_ways() {
    let none = RunOutput::default();
    let endings = [
        RunEnding::Failed(error("upstream_error", "the model server answered 500")),
        RunEnding::Cancelled,
        RunEnding::Interrupted(error("interrupted", "another turn interrupted this one")),
    ];
    let ended = endings.map(|ending| shown(&stream(&[reasoning("Hm.")], &ending, &none)[2..]));
    insta::assert_snapshot!(ended.join("\n"), @r#"
    id: 2
    data: {"event":"reasoning.available","run_id":"run_<hex>","text":"Hm."}
    id: 3
    data: {"event":"run.failed","run_id":"run_<hex>","error":"the model server answered 500","code":"upstream_error"}

    id: 2
    data: {"event":"reasoning.available","run_id":"run_<hex>","text":"Hm."}
    id: 3
    data: {"event":"run.cancelled","run_id":"run_<hex>"}

    id: 2
    data: {"event":"reasoning.available","run_id":"run_<hex>","text":"Hm."}
    id: 3
    data: {"event":"run.interrupted","run_id":"run_<hex>","error":"another turn interrupted this one","code":"interrupted"}
    "#);
    let bare = RunEvents::new(RUN).end(&RunEnding::Completed, &none, None);
    insta::assert_snapshot!(shown(&bare), @r#"
    id: 0
    data: {"event":"run.completed","run_id":"run_<hex>","output":null,"usage":null}
    "#);
}

#[test]
fn skipped_numbers_are_never_used_again() {
    let mut events = RunEvents::new(RUN);
    events.started(CREATED, &crate::session());
    events.skip(1000);
    let ended = events.end(&RunEnding::Cancelled, &RunOutput::default(), None);
    assert_eq!(ended[0].number, 1001);
    assert!(ended[0].bytes.starts_with(b"id: 1001\n"));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..256)) {
        let _ = parse(&body, &Known::default());
    }
}

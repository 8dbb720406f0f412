//! The Responses API: conversations by slug, chains, branches, and stored responses.

use herma_testkit::{Answer, Completion, Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::{CHAT, SESSION_ID, TestGateway, chat, data, error, user, with};

const RESPONSES: &str = "/v1/responses";

async fn respond(gateway: &TestGateway, body: &Value) -> Answer {
    gateway.client().post_json(RESPONSES, body).await
}

fn said(text: &str) -> Value {
    json!({"model": "scripted", "input": text})
}

fn text(response: &Value) -> &str {
    let message = response["output"].as_array().and_then(|items| items.iter().find(|item| item["type"] == "message"));
    message.and_then(|item| item["content"][0]["text"].as_str()).unwrap_or_else(|| panic!("no text in {response}"))
}

fn id(response: &Value) -> Value {
    response["id"].clone()
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_incomplete_wherever_it_is_read() {
    let gateway = TestGateway::start().await;
    for streamed in [false, true] {
        gateway.upstream.push(Completion::text("half").finish_reason("length").into());
        let body = with(said("one"), "stream", json!(streamed));
        let made = match streamed {
            false => respond(&gateway, &body).await.expect(200),
            true => {
                let events = gateway.client().post_stream(RESPONSES, &body).await.rest().await;
                events[events.len() - 2].json()["response"].clone()
            }
        };
        assert_eq!((&made["status"], &made["output"][0]["status"]), (&json!("incomplete"), &json!("incomplete")));
        let path = format!("{RESPONSES}/{}", made["id"].as_str().unwrap());
        assert_eq!(gateway.client().get(&path).await.expect(200), made);
    }
}

#[tokio::test]
async fn a_slug_goes_on_for_ever() {
    let mut gateway = TestGateway::start().await;
    let in_trip = |text: &str| with(said(text), "conversation", json!("trip"));
    let first = respond(&gateway, &in_trip("one")).await.expect(200);
    assert_eq!((first["session"]["resolution"].as_str(), text(&first)), (Some("created"), "reply to: one"));
    let handle = first["conversation"]["id"].clone();
    gateway.client().delete(&format!("{RESPONSES}/{}", first["id"].as_str().unwrap())).await.expect(200);
    gateway.restart().await;
    let second = respond(&gateway, &with(in_trip("two"), "store", json!(false))).await.expect(200);
    assert_eq!((&second["conversation"]["id"], &second["session"]["resolution"]), (&handle, &json!("head")));
    let by_handle = with(said("three"), "conversation", json!({"id": handle}));
    respond(&gateway, &by_handle).await.expect(200);
    let expected = ["user: one", "assistant: reply to: one", "user: two", "assistant: reply to: two", "user: three"];
    assert_eq!(gateway.context(), expected);
    assert_eq!(gateway.sessions().await.len(), 1);
    let path = format!("{RESPONSES}/{}", second["id"].as_str().unwrap());
    assert_eq!(error(&gateway.client().get(&path).await, 404)["code"], "not_found", "it was not stored");
}

#[tokio::test]
async fn simultaneous_first_uses_of_a_slug_make_one_conversation() {
    let gateway = TestGateway::start().await;
    let asked = (0..12).map(|number| {
        let client = gateway.client();
        let body = with(said(&number.to_string()), "conversation", json!("trip"));
        tokio::spawn(async move { client.post_json(RESPONSES, &body).await.expect(200)["conversation"]["id"].clone() })
    });
    let mut handles = Vec::new();
    for one in asked {
        handles.push(one.await.unwrap());
    }
    handles.dedup();
    assert_eq!((handles.len(), gateway.sessions().await.len()), (1, 1));
    assert_eq!(gateway.rows("trip").await.len(), 24);
}

#[tokio::test]
async fn the_last_response_continues_and_an_earlier_one_branches() {
    let mut gateway = TestGateway::start().await;
    let after = |previous: &Value, text: &str| with(said(text), "previous_response_id", id(previous));
    let one = respond(&gateway, &said("one")).await.expect(200);
    assert_eq!(one.get("conversation"), None, "none was named");
    let two = respond(&gateway, &after(&one, "two")).await.expect(200);
    gateway.restart().await;
    let three = respond(&gateway, &after(&two, "three")).await.expect(200);
    assert_eq!(three["session"]["resolution"], "head");
    assert_eq!(three["previous_response_id"], two["id"]);
    assert_eq!(gateway.context().len(), 5, "the history grows by what was said");
    let conversation = one["session"]["conversation_id"].as_str().unwrap().to_owned();
    let mut before = gateway.client().get(&format!("/api/sessions/{conversation}")).await.expect(200);

    let branch = respond(&gateway, &after(&one, "other")).await.expect(200);
    assert_eq!(gateway.context(), ["user: one", "assistant: reply to: one", "user: other"]);
    let session = &branch["session"];
    assert_eq!((&session["resolution"], &session["provenance"]["kind"]), (&json!("branched"), &json!("branch")));
    assert_eq!(session["provenance"]["parent_session_id"], one["session"]["session_id"]);
    assert_ne!(session["conversation_id"], one["session"]["conversation_id"]);
    let now = gateway.client().get(&format!("/api/sessions/{conversation}")).await.expect(200);
    assert_ne!(now["usage_tree"], before["usage_tree"], "the branch is below its source");
    before["usage_tree"] = now["usage_tree"].clone();
    assert_eq!(now, before, "the source is untouched");

    gateway.restart().await;
    let on_branch = respond(&gateway, &after(&branch, "more")).await.expect(200);
    assert_eq!(on_branch["session"]["resolution"], "head");
    let expected = ["user: one", "assistant: reply to: one", "user: other", "assistant: reply to: other", "user: more"];
    assert_eq!(gateway.context(), expected);
    let rows = gateway.transcript(branch["session"]["conversation_id"].as_str().unwrap()).await;
    assert_eq!(rows[..5], expected, "the full view of a branch begins with what it inherits");
    assert_eq!(gateway.sessions().await.len(), 2);
}

#[tokio::test]
async fn a_failed_turn_does_not_make_a_response_an_earlier_one() {
    let gateway = TestGateway::start().await;
    let one = respond(&gateway, &said("one")).await.expect(200);
    let after = |text: &str| with(said(text), "previous_response_id", id(&one));
    gateway.upstream.push(Reply::status(400, "no"));
    respond(&gateway, &after("two")).await.expect(502);
    let three = respond(&gateway, &after("three")).await.expect(200);
    assert_eq!(three["session"]["resolution"], "head");
    let expected = ["user: one", "assistant: reply to: one", "user: two", crate::support::NO_REPLY, "user: three"];
    assert_eq!(gateway.context(), expected);
}

#[tokio::test]
async fn a_response_that_was_summarised_is_the_last_one_as_long_as_nothing_was_answered_since() {
    let gateway = TestGateway::with_settings(&[("HERMA_CONTEXT_WINDOW", "4000")]).await;
    let long = "and then more ".repeat(120);
    let answer = format!("answer {}", long.repeat(3));
    gateway.upstream.otherwise(move |request| match request.last_user_text() {
        asked if asked.contains("</conversation>") => Reply::text("They tried."),
        asked if asked.starts_with("try") => Reply::status(400, "no"),
        asked if asked.starts_with("one") => Reply::text(answer.clone()),
        _ => Reply::text("noted"),
    });
    let one = respond(&gateway, &with(said("one"), "conversation", json!("trip"))).await.expect(200);
    let after = |text: &str| with(said(text), "previous_response_id", id(&one));
    for number in 0..6 {
        respond(&gateway, &after(&format!("try {number}: {long}"))).await.expect(502);
    }
    let two = respond(&gateway, &after("two")).await.expect(200);
    assert_eq!(two["session"]["resolution"], "head");
    let is_shown = |line: &String| line.starts_with("assistant: answer");
    assert!(!gateway.context().iter().any(is_shown), "it was summarised");
    assert_eq!(respond(&gateway, &after("three")).await.expect(200)["session"]["resolution"], "branched");
    assert!(is_shown(&gateway.context()[1]), "a branch begins where it ended, before that");
}

#[tokio::test]
async fn two_at_once_after_one_response_are_one_continuation_and_one_branch() {
    let gateway = TestGateway::start().await;
    let one = respond(&gateway, &said("one")).await.expect(200);
    let asked = ["left", "right"].map(|text| {
        let (client, body) = (gateway.client(), with(said(text), "previous_response_id", id(&one)));
        tokio::spawn(
            async move { client.post_json(RESPONSES, &body).await.expect(200)["session"]["resolution"].clone() },
        )
    });
    let mut led = Vec::new();
    for one in asked {
        led.push(one.await.unwrap().as_str().unwrap().to_owned());
    }
    led.sort();
    assert_eq!(led, ["branched", "head"]);
}

#[tokio::test]
async fn chat_and_responses_share_one_conversation() {
    let gateway = TestGateway::start().await;
    gateway.in_session("trip").post_json(CHAT, &chat(&[user("by chat")])).await.expect(200);
    let response = respond(&gateway, &with(said("by response"), "conversation", json!("trip"))).await.expect(200);
    gateway.in_session(response["id"].as_str().unwrap()).post_json(CHAT, &chat(&[user("by its id")])).await.expect(200);
    let history = [
        json!({"role": "user", "content": "by chat"}),
        json!({"role": "assistant", "content": "reply to: by chat"}),
        json!({"role": "user", "content": "by response"}),
        json!({"role": "assistant", "content": "reply to: by response"}),
        json!({"role": "user", "content": "by its id"}),
        json!({"role": "assistant", "content": "reply to: by its id"}),
        json!({"role": "user", "content": "all of it"}),
    ];
    let whole = json!({"model": "scripted", "conversation": "trip", "input": history});
    respond(&gateway, &whole).await.expect(200);
    assert_eq!(gateway.context().len(), 7, "what is known is not said again");
    assert_eq!(gateway.rows("trip").await.len(), 8);
}

#[tokio::test]
async fn instructions_hold_for_their_own_request_alone() {
    let gateway = TestGateway::start().await;
    let system = json!({"role": "developer", "content": "Be kind."});
    let first =
        json!({"model": "scripted", "conversation": "trip", "input": [system, {"role": "user", "content": "one"}]});
    respond(&gateway, &first).await.expect(200);
    let brief = with(with(said("two"), "conversation", json!("trip")), "instructions", json!("Be brief."));
    let answer = respond(&gateway, &brief).await.expect(200);
    assert_eq!((gateway.context()[0].as_str(), &answer["instructions"]), ("system: Be brief.", &json!("Be brief.")));
    respond(&gateway, &with(said("three"), "conversation", json!("trip"))).await.expect(200);
    assert_eq!(gateway.context()[0], "developer: Be kind.");
}

#[tokio::test]
async fn a_stored_response_can_be_fetched_listed_and_forgotten() {
    let mut gateway = TestGateway::start().await;
    let body = with(with(said("one"), "conversation", json!("trip")), "metadata", json!({"a": "b"}));
    let made = respond(&gateway, &body).await.expect(200);
    gateway.restart().await;
    let path = format!("{RESPONSES}/{}", made["id"].as_str().unwrap());
    assert_eq!(gateway.client().get(&path).await.expect(200), made, "as it was, after a restart");
    let items = data(&gateway.client().get(&format!("{path}/input_items")).await);
    assert_eq!((items.len(), &items[0]["content"][0]["text"]), (1, &json!("one")));
    let gone = gateway.client().delete(&path).await.expect(200);
    assert_eq!((&gone["object"], &gone["deleted"]), (&json!("response"), &json!(true)));
    for path in [path.clone(), format!("{path}/input_items"), format!("{RESPONSES}/resp_nonsense")] {
        assert_eq!(error(&gateway.client().get(&path).await, 404)["code"], "not_found", "{path}");
    }
    assert_eq!(error(&gateway.client().delete(&path).await, 404)["code"], "not_found");
    let after = with(said("two"), "previous_response_id", made["id"].clone());
    let refused = error(&respond(&gateway, &after).await, 404);
    assert_eq!(
        (&refused["code"], &refused["param"]),
        (&json!("previous_response_not_found"), &json!("previous_response_id"))
    );
    assert_eq!(gateway.transcript("trip").await, ["user: one", "assistant: reply to: one"], "what was said stays");
}

#[tokio::test]
async fn a_stream_has_every_event_in_order_and_ends_as_the_stored_response() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::chunks(["so ", "it ", "is"]));
    let body = with(with(said("one"), "conversation", json!("trip")), "stream", json!(true));
    let mut stream = gateway.client().post_stream(RESPONSES, &body).await;
    assert_eq!(stream.header(SESSION_ID), Some("trip"));
    let events = stream.rest().await;
    assert_eq!(events.last().map(|event| event.data.as_str()), Some("[DONE]"));
    let events: Vec<_> = events.iter().filter(|event| event.data.starts_with('{')).collect();
    let types: Vec<_> = events.iter().map(|event| event.name.clone().unwrap()).collect();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(types, expected);
    let numbers: Vec<_> = events.iter().map(|event| event.json()["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..11).collect::<Vec<_>>());
    let last = events[10].json()["response"].clone();
    assert_eq!(last["session"]["session_id"], "trip");
    let stored = gateway.client().get(&format!("{RESPONSES}/{}", last["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(stored, last);
    assert_eq!(text(&stored), "so it is");
}

#[tokio::test]
async fn a_stream_that_fails_says_so_and_so_does_the_stored_response() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::cut_off_after(2));
    let body = with(with(said("one"), "conversation", json!("trip")), "stream", json!(true));
    let events = gateway.client().post_stream(RESPONSES, &body).await.rest().await;
    let failed = events.iter().find(|event| event.name.as_deref() == Some("response.failed")).expect("an end").json();
    let response = &failed["response"];
    assert_eq!((&response["status"], &response["error"]["code"]), (&json!("failed"), &json!("upstream_error")));
    let stored = gateway.client().get(&format!("{RESPONSES}/{}", response["id"].as_str().unwrap())).await.expect(200);
    assert_eq!((&stored["status"], &stored["error"]["code"]), (&json!("failed"), &json!("upstream_error")));
}

#[tokio::test]
async fn tools_are_called_and_answered_across_responses() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("c1", "find", "{\"a\":1}")]));
    let tools = json!([{"type": "function", "name": "find", "parameters": {"type": "object"}}]);
    let asked = respond(&gateway, &with(said("look"), "tools", tools.clone())).await.expect(200);
    let call = &asked["output"][0];
    assert_eq!(
        (&call["type"], &call["call_id"], &call["name"]),
        (&json!("function_call"), &json!("c1"), &json!("find"))
    );
    assert_eq!(gateway.upstream.last_request().body["tools"][0]["function"]["name"], "find");
    let result = json!({"model": "scripted", "previous_response_id": id(&asked), "tools": tools,
        "input": [{"type": "function_call_output", "call_id": "c1", "output": "found"}]});
    respond(&gateway, &result).await.expect(200);
    assert_eq!(gateway.context(), ["user: look", "assistant c1=find({\"a\":1})", "tool c1: found"]);
    let doubled = respond(&gateway, &result).await.expect(200);
    assert_eq!(doubled["session"]["resolution"], "branched", "the same call answered again is another way on");
}

#[tokio::test]
async fn what_cannot_be_is_refused_by_name_and_leaves_nothing() {
    let gateway = TestGateway::start().await;
    let one = respond(&gateway, &said("one")).await.expect(200);
    let both = with(with(said("x"), "conversation", json!("trip")), "previous_response_id", id(&one));
    assert_eq!(error(&respond(&gateway, &both).await, 400)["code"], "conversation_and_previous_response");
    for (body, status, param) in [
        (with(said("x"), "conversation", json!(format!("conv_{}", "0".repeat(32)))), 404, None),
        (with(said("x"), "previous_response_id", json!("resp_1")), 404, Some("previous_response_id")),
        (with(said("x"), "conversation", json!("a/b")), 400, Some("conversation")),
        (with(with(said("x"), "background", json!(true)), "store", json!(false)), 400, Some("background")),
        (json!({"model": "scripted"}), 400, Some("input")),
        (json!({"input": [{"role": "system", "content": "Be kind."}]}), 400, Some("input")),
        (
            json!({"input": [{"type": "function_call_output", "call_id": "c9", "output": "x"}]}),
            400,
            Some("input[0].call_id"),
        ),
    ] {
        let refused = error(&respond(&gateway, &body).await, status);
        assert_eq!(refused["param"].as_str(), param, "{body}");
    }
    let elsewhere = gateway.in_session("elsewhere").post_json(CHAT, &chat(&[user("hi")])).await;
    elsewhere.expect(200);
    let mixed = with(said("x"), "previous_response_id", id(&one));
    let mixed = gateway.in_session("elsewhere").post_json(RESPONSES, &mixed).await;
    assert_eq!(error(&mixed, 400)["param"], "previous_response_id");
    assert_eq!(gateway.sessions().await.len(), 2);
}

#[tokio::test]
async fn a_compaction_is_an_item_of_the_response_that_needed_it() {
    let gateway = TestGateway::with_settings(&[("HERMA_CONTEXT_WINDOW", "4000")]).await;
    gateway.upstream.otherwise(|request| {
        let last = request.messages().last().and_then(|message| message["content"].as_str()).unwrap_or_default();
        if last.contains("</conversation>") { Reply::text("They spoke.") } else { Reply::text("noted") }
    });
    let long = |number: usize| format!("part {number}: {}", "and then more ".repeat(200));
    let mut compacted = None;
    for number in 0..12 {
        let body = with(said(&long(number)), "conversation", json!("trip"));
        let response = respond(&gateway, &body).await.expect(200);
        if response["session"]["rotated"] == true {
            compacted = Some(response);
            break;
        }
    }
    let response = compacted.expect("a compaction");
    assert_eq!(
        (&response["output"][0]["type"], &response["output"][1]["type"]),
        (&json!("compaction"), &json!("message"))
    );
    let ledger = data(&gateway.client().get("/api/sessions/trip/compactions").await);
    assert_eq!(response["output"][0]["id"], ledger[0]["id"]);
    let stored = gateway.client().get(&format!("{RESPONSES}/{}", response["id"].as_str().unwrap())).await.expect(200);
    assert_eq!(stored["output"], response["output"]);
}

#[tokio::test]
async fn an_item_that_is_named_is_read_as_the_item_it_is() {
    let mut gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::tool_calls([ToolCall::new("c1", "look", "{}")]));
    let asked = respond(&gateway, &said("one")).await.expect(200);
    gateway.restart().await;
    let call = asked["output"][0]["id"].clone();
    let named = json!([
        {"role": "user", "content": "one"},
        {"type": "item_reference", "id": call},
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
    ]);
    let answered = respond(&gateway, &with(said(""), "input", named)).await.expect(200);
    let sent = gateway.upstream.last_request();
    assert_eq!(sent.messages()[1]["tool_calls"][0]["id"], "c1");
    let whole = json!([
        {"role": "user", "content": "one"},
        {"type": "item_reference", "id": answered["output"][0]["id"]},
        {"role": "user", "content": "two"},
    ]);
    respond(&gateway, &with(said(""), "input", whole)).await.expect(200);
    let text = text(&answered);
    assert_eq!(gateway.context(), ["user: one".to_owned(), format!("assistant: {text}"), "user: two".to_owned()]);
    let unknown = json!([{"type": "item_reference", "id": format!("msg_{}", "0".repeat(32))}]);
    let refused = respond(&gateway, &with(said(""), "input", unknown)).await;
    assert_eq!(error(&refused, 400)["param"], "input[0].id");
}

#[tokio::test]
async fn tokens_written_to_a_cache_are_told_live_and_when_fetched() {
    let mut gateway = TestGateway::start().await;
    let counted = |written: Value| {
        let details = json!({"cache_write_tokens": written});
        json!({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": details})
    };
    for (written, told) in [(json!(5), 5), (json!(null), 0)] {
        gateway.upstream.push(Completion { usage: Some(counted(written)), ..Completion::text("fine") }.into());
        let made = respond(&gateway, &said("one")).await.expect(200);
        let details = json!({"cached_tokens": 0, "cache_write_tokens": told});
        assert_eq!(made["usage"]["input_tokens_details"], details);
        gateway.restart().await;
        let fetched = gateway.client().get(&format!("{RESPONSES}/{}", made["id"].as_str().unwrap())).await.expect(200);
        assert_eq!(fetched["usage"], made["usage"]);
    }
}

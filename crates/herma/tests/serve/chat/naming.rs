//! Which conversation a request belongs to, and how the answer shows it.

use herma_testkit::Answer;
use serde_json::{Value, json};

use crate::support::{CHAT, CONVERSATION_ID, SESSION_ID, TestGateway, chat, error, lines, user};

fn session(answer: &Answer) -> Value {
    answer.expect(200)["session"].clone()
}

/// The whole expected `session` object of a first session.
fn first_session(conversation: &str, id: &str, resolution: &str) -> Value {
    json!({
        "conversation_id": conversation,
        "session_id": id,
        "requested_id": id,
        "resolution": resolution,
        "rotated": false,
        "provenance": {
            "session_id": id,
            "conversation_id": conversation,
            "root_session_id": id,
            "kind": "main",
            "origin_kind": "main",
            "creator_kind": "api",
            "compression_depth": 0,
            "compaction_count": 0,
            "is_user_facing": true,
        },
    })
}

#[tokio::test]
async fn the_first_use_of_an_id_creates_and_every_later_use_continues() {
    let gateway = TestGateway::start().await;
    let first = gateway.say("trip", "to Rome").await;
    let conversation = first.header(CONVERSATION_ID).expect("a handle").to_owned();
    assert!(conversation.starts_with("conv_") && conversation.len() == 37, "{conversation}");
    assert_eq!(first.header(SESSION_ID), Some("trip"));
    assert_eq!(session(&first), first_session(&conversation, "trip", "created"));

    let second = gateway.say("trip", "by train").await;
    assert_eq!(second.header(SESSION_ID), Some("trip"));
    assert_eq!(session(&second), first_session(&conversation, "trip", "head"));
    assert_eq!(gateway.context(), ["user: to Rome", "assistant: reply to: to Rome", "user: by train"]);
    assert_eq!(gateway.sessions().await.len(), 1);
}

#[tokio::test]
async fn an_answer_is_a_whole_chat_completion() {
    let gateway = TestGateway::start().await;
    let answer = gateway.say("s", "hello there").await;
    let mut body = answer.expect(200);
    let id = body["id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("chatcmpl-"), "{id}");
    assert!(body["created"].as_i64().is_some_and(|created| created > 1_700_000_000), "{body}");
    body.as_object_mut().expect("an object").retain(|name, _| !matches!(name.as_str(), "id" | "created" | "session"));
    assert_eq!(
        body,
        json!({
            "object": "chat.completion",
            "model": "scripted",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": "reply to: hello there", "refusal": null},
                "logprobs": null,
                "finish_reason": "stop",
            }],
            "usage": {
                "prompt_tokens": 3,
                "completion_tokens": 4,
                "total_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
        })
    );
}

#[tokio::test]
async fn the_stable_handle_continues_in_both_headers() {
    let gateway = TestGateway::start().await;
    let handle = gateway.say("trip", "one").await.header(CONVERSATION_ID).expect("a handle").to_owned();
    for (header, text) in [(CONVERSATION_ID, "two"), (SESSION_ID, "three")] {
        let answer = gateway.client().header(header, &handle).post_json(CHAT, &chat(&[user(text)])).await;
        let session = session(&answer);
        assert_eq!((session["requested_id"].as_str(), session["session_id"].as_str()), (Some(&*handle), Some("trip")));
        assert_eq!(session["resolution"], "head");
    }
    assert_eq!(gateway.context().len(), 5);
}

#[tokio::test]
async fn a_session_id_in_the_conversation_header_continues_but_never_creates() {
    let gateway = TestGateway::start().await;
    let ask = async |name: &str| {
        gateway.client().header(CONVERSATION_ID, name).post_json(CHAT, &chat(&[user("hello")])).await
    };
    for name in ["trip", "conv_0123456789abcdef0123456789abcdef", "zürich"] {
        assert_eq!(error(&ask(name).await, 404)["code"], "not_found", "{name}");
    }
    assert_eq!(gateway.sessions().await, Vec::<Value>::new());
    gateway.say("trip", "one").await.expect(200);
    assert_eq!(session(&ask("trip").await)["resolution"], "head");
}

#[tokio::test]
async fn names_of_hermas_own_form_are_never_made_by_a_client() {
    let gateway = TestGateway::start().await;
    let own = ["conv_", "sess_", "resp_", "run_", "msg_", "turn_", "cmp_", "job_"]
        .map(|prefix| format!("{prefix}0123456789abcdef0123456789abcdef"));
    for name in own.iter().map(String::as_str).chain(["conv_mine", "conv_"]) {
        assert_eq!(error(&gateway.say(name, "hello").await, 404)["code"], "not_found", "{name}");
    }
    assert_eq!((gateway.sessions().await.len(), gateway.upstream.requests().len()), (0, 0));
    for name in ["run_daily", "sess_0123", "job_0123456789abcdef0123456789abcdef0", "zürich trip", "a:b@c"] {
        let session = session(&gateway.say(name, "hello").await);
        assert_eq!((session["session_id"].as_str(), session["resolution"].as_str()), (Some(name), Some("created")));
    }
}

#[tokio::test]
async fn two_names_must_lead_to_the_same_conversation() {
    let gateway = TestGateway::start().await;
    let handle = gateway.say("one", "hello").await.header(CONVERSATION_ID).expect("a handle").to_owned();
    gateway.say("two", "hello").await.expect(200);
    let both = async |session: &str| {
        let client = gateway.in_session(session).header(CONVERSATION_ID, &handle);
        client.post_json(CHAT, &chat(&[user("again")])).await
    };
    assert_eq!(session(&both("one").await)["session_id"], "one");
    for other in ["two", "never seen"] {
        let error = error(&both(other).await, 400);
        assert_eq!(
            (error["code"].as_str(), error["param"].as_str()),
            (Some("invalid_header"), Some("X-Hermes-Conversation-Id"))
        );
    }
    assert_eq!(gateway.sessions().await.len(), 2);
}

#[tokio::test]
async fn requests_without_a_name_are_conversations_of_their_own() {
    let gateway = TestGateway::start().await;
    let ask = async || gateway.client().post_json(CHAT, &chat(&[user("hello")])).await;
    let (first, second) = (ask().await, ask().await);
    assert_ne!(first.header(CONVERSATION_ID), second.header(CONVERSATION_ID));
    assert_eq!(gateway.context(), ["user: hello"]);
    let made = session(&first);
    assert_eq!((made["resolution"].as_str(), made.get("requested_id")), (Some("created"), None));
    let id = made["session_id"].as_str().expect("an id");
    assert!(id.starts_with("sess_") && id.len() == 37, "{id}");

    let continued = gateway.say(id, "more").await;
    assert_eq!(session(&continued)["conversation_id"], made["conversation_id"]);
    assert_eq!(gateway.context(), ["user: hello", "assistant: reply to: hello", "user: more"]);
}

#[tokio::test]
async fn an_empty_name_is_no_name() {
    let gateway = TestGateway::start().await;
    let client = gateway.in_session("").header(CONVERSATION_ID, "").header("x-hermes-session-key", "");
    let client =
        client.header("x-hermes-turn-policy", "").header("x-hermes-on-disconnect", "").header("idempotency-key", "");
    let answer = client.post_json(CHAT, &chat(&[user("hello")])).await;
    assert_eq!(session(&answer).get("requested_id"), None);
    assert_eq!(answer.header("x-hermes-session-key"), None);
}

#[tokio::test]
async fn user_never_selects_a_session() {
    let gateway = TestGateway::start().await;
    for text in ["one", "two"] {
        let body = json!({"user": "anna", "messages": [user(text)]});
        gateway.client().post_json(CHAT, &body).await.expect(200);
        assert_eq!(lines(gateway.upstream.last_request().messages()), [format!("user: {text}")]);
    }
    assert_eq!(gateway.sessions().await.len(), 2);
}

#[tokio::test]
async fn every_name_still_leads_there_after_a_crash() {
    let mut gateway = TestGateway::start().await;
    let handle = gateway.say("trip", "one").await.header(CONVERSATION_ID).expect("a handle").to_owned();
    gateway.restart().await;
    gateway.say("trip", "two").await.expect(200);
    let answer = gateway.say(&handle, "three").await;
    assert_eq!(session(&answer)["session_id"], "trip");
    assert_eq!(
        gateway.context(),
        ["user: one", "assistant: reply to: one", "user: two", "assistant: reply to: two", "user: three"]
    );
}

#[tokio::test]
async fn a_request_keeps_the_id_its_client_gave_it() {
    let gateway = TestGateway::start().await;
    let named = gateway.client().header("x-request-id", "trace-42");
    assert_eq!(named.post_json(CHAT, &chat(&[user("hello")])).await.header("x-request-id"), Some("trace-42"));
    assert_eq!(named.post_json(CHAT, &json!({})).await.header("x-request-id"), Some("trace-42"));
    assert_eq!(named.get("/nowhere").await.header("x-request-id"), Some("trace-42"));
    let (one, two) = (gateway.client().get("/health").await, gateway.client().get("/health").await);
    let made = |answer: &Answer| answer.header("x-request-id").map(str::to_owned);
    assert!(made(&one).is_some_and(|id| !id.is_empty()) && made(&one) != made(&two));
}

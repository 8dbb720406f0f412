//! Conversations as rows, their messages, and the gateway's information about itself.

use herma_testkit::Reply;
use serde_json::{Value, json};

use crate::support::{CHAT, SESSION_KEY, TestGateway, chat, data, error, streamed, user};

async fn ids(gateway: &TestGateway, query: &str) -> Vec<String> {
    let rows = data(&gateway.client().get(&format!("/api/sessions{query}")).await);
    rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn a_row_says_everything_about_a_conversation_and_is_the_same_wherever_it_is_read() {
    let mut gateway = TestGateway::start().await;
    let handle = gateway.say("trip", "to Rome").await.expect(200)["session"]["conversation_id"].clone();
    let mut row = gateway.client().get("/api/sessions/trip").await.expect(200);
    let by_handle = format!("/api/sessions/{}", handle.as_str().expect("a handle"));
    assert_eq!(gateway.client().get(&by_handle).await.expect(200), row);
    assert_eq!(gateway.client().get("/api/sessions/trip?pin=exact").await.expect(200), row);
    assert_eq!(gateway.sessions().await, [row.clone()]);
    gateway.restart().await;
    assert_eq!(gateway.sessions().await, [row.clone()]);

    for name in ["created_at", "updated_at"] {
        let time = row[name].as_str().expect("a time");
        assert!(time.len() == 24 && time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
        row[name] = Value::Null;
    }
    assert_eq!(
        row,
        json!({
            "id": "trip", "object": "session", "conversation_id": handle, "name": "trip", "title": "to Rome",
            "kind": "main", "origin_kind": "main",
            "session_key": null, "source": "api", "metadata": {}, "archived": false, "parent_session_id": null,
            "created_at": null, "updated_at": null, "ended_at": null, "end_reason": null, "message_count": 2,
            "turn_count": 1, "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7, "cached_tokens": 0,
            "reasoning_tokens": 0},
            "usage_tree": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7, "cached_tokens": 0,
            "reasoning_tokens": 0},
            "provenance": {
                "session_id": "trip", "conversation_id": handle, "root_session_id": "trip", "kind": "main",
                "origin_kind": "main", "creator_kind": "api", "compression_depth": 0, "compaction_count": 0,
                "is_user_facing": true,
            },
        })
    );
}

#[tokio::test]
async fn pages_have_every_conversation_once_newest_first() {
    let gateway = TestGateway::start().await;
    assert_eq!(
        gateway.client().get("/api/sessions").await.expect(200),
        json!({"object": "list", "data": [], "has_more": false, "next_cursor": null})
    );
    for number in 1..=7 {
        gateway.say(&format!("s{number}"), "hello").await.expect(200);
    }
    let (mut seen, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = gateway.client().get(&format!("/api/sessions?limit=3{cursor}")).await.expect(200);
        let rows = page["data"].as_array().expect("rows");
        assert!(rows.len() <= 3);
        seen.extend(rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()));
        pages += 1;
        let Some(next) = page["next_cursor"].as_str() else {
            assert_eq!(page["has_more"], false);
            break;
        };
        assert_eq!(page["has_more"], true);
        cursor = format!("&cursor={next}");
        // A conversation that is created while a client reads pages must not repeat or skip rows.
        gateway.say(&format!("late{pages}"), "hello").await.expect(200);
    }
    assert_eq!(seen, ["s7", "s6", "s5", "s4", "s3", "s2", "s1"]);
    assert_eq!(pages, 3);
    gateway.say("s1", "again").await.expect(200);
    assert_eq!(ids(&gateway, "?limit=1").await, ["s1"], "the last to change comes first");
}

#[tokio::test]
async fn lists_are_filtered_and_unknown_parameters_refused() {
    let gateway = TestGateway::start().await;
    gateway.say("plain", "hello").await.expect(200);
    let keyed = gateway.in_session("keyed").header(SESSION_KEY, "team/ops *[x]");
    keyed.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    for (query, expected) in [
        ("", &["keyed", "plain"][..]),
        ("?kind=main", &["keyed", "plain"]),
        ("?kind=branch", &[]),
        ("?origin_kind=main&source=api", &["keyed", "plain"]),
        ("?source=cli", &[]),
        ("?session_key=team%2Fops%20*%5Bx%5D", &["keyed"]),
        ("?session_key=team%2Fops%20*", &[]),
        ("?kind=&limit=&cursor=", &["keyed", "plain"]),
    ] {
        assert_eq!(ids(&gateway, query).await, expected, "{query}");
    }
    for (query, param) in [
        ("?nonsense=1", "nonsense"),
        ("?kind=human", "kind"),
        ("?origin_kind=1", "origin_kind"),
        ("?limit=0", "limit"),
        ("?limit=201", "limit"),
        ("?limit=-1", "limit"),
        ("?limit=x", "limit"),
        ("?limit=99999999999999999999", "limit"),
        ("?cursor=x", "cursor"),
        ("?cursor=zz.zz", "cursor"),
        ("?cursor=1.2.3", "cursor"),
        ("?session_key=%00", "session_key"),
        ("?Limit=1", "Limit"),
    ] {
        assert_eq!(
            error(&gateway.client().get(&format!("/api/sessions{query}")).await, 400)["param"],
            param,
            "{query}"
        );
    }
    for (query, param) in [("?pin=head", "pin"), ("?view=full", "view")] {
        assert_eq!(error(&gateway.client().get(&format!("/api/sessions/plain{query}")).await, 400)["param"], param);
    }
    for (query, param) in [("?view=x", "view"), ("?limit=0", "limit"), ("?cursor=-1", "cursor"), ("?pin=head", "pin")] {
        let path = format!("/api/sessions/plain/messages{query}");
        assert_eq!(error(&gateway.client().get(&path).await, 400)["param"], param, "{query}");
    }
}

#[tokio::test]
async fn messages_are_paged_oldest_first_in_both_views() {
    let gateway = TestGateway::start().await;
    let first = chat(&[crate::support::system("Be brief."), user("one")]);
    gateway.in_session("s").post_json(CHAT, &first).await.expect(200);
    gateway.upstream.push(Reply::cut_off_after(1));
    gateway.in_session("s").post_stream(CHAT, &streamed(chat(&[user("two")]))).await.rest().await;
    gateway.say("s", "three").await.expect(200);
    for (view, expected) in [("full", gateway.transcript("s").await), ("model", gateway.model_view("s").await)] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/api/sessions/s/messages?view={view}&limit=2{cursor}");
            let page = gateway.client().get(&path).await.expect(200);
            seen.extend(crate::support::lines(page["data"].as_array().expect("rows")));
            assert_eq!(page["has_more"], page["next_cursor"].is_string());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(seen, expected);
    }
    assert_eq!(
        gateway.transcript("s").await,
        [
            "user: one",
            "assistant: reply to: one",
            "user: two",
            "assistant (partial): chunk1 ",
            "user: three",
            "assistant: reply to: three"
        ]
    );
    let model = gateway.model_view("s").await;
    assert_eq!((model[0].as_str(), model.len()), ("system: Be brief.", 7));

    let row = &gateway.rows("s").await[1];
    let names: Vec<&str> = row.as_object().expect("a row").keys().map(String::as_str).collect();
    let expected = ["id", "object", "seq", "role", "content", "status", "session_id", "turn_id", "turn_status"];
    assert_eq!(names, [&expected[..], &["created_at"]].concat());
    assert_eq!(row["turn_status"], "completed");
    assert!(row["id"].as_str().is_some_and(|id| id.starts_with("msg_")));
    assert!(row["turn_id"].as_str().is_some_and(|id| id.starts_with("turn_")));
    assert_eq!(
        (row["status"].as_str(), row["session_id"].as_str(), row["seq"].as_i64()),
        (Some("complete"), Some("s"), Some(2))
    );
}

#[tokio::test]
async fn models_are_those_of_the_server_and_are_known_by_name() {
    let gateway = TestGateway::start().await;
    let model = json!({"id": "scripted", "object": "model", "created": 0, "owned_by": "testkit"});
    assert_eq!(gateway.client().get("/v1/models").await.expect(200), json!({"object": "list", "data": [model]}));
    assert_eq!(gateway.client().get("/v1/models/scripted").await.expect(200), model);
    for name in ["nobody", "a/b", "scripted/"] {
        assert_eq!(
            error(&gateway.client().get(&format!("/v1/models/{name}")).await, 404)["code"],
            "not_found",
            "{name}"
        );
    }
}

#[tokio::test]
async fn capabilities_say_what_is_there_and_nothing_else() {
    let gateway = TestGateway::start().await;
    let capabilities = gateway.client().get("/v1/capabilities").await.expect(200);
    let features = &capabilities["features"];
    assert_eq!(features["session_continuity_header"], "X-Hermes-Session-Id");
    assert_eq!(features["session_key_header"], "X-Hermes-Session-Key");
    assert_eq!(features["turn_policies"], json!(["queue", "reject", "interrupt", "branch"]));
    assert_eq!(features["compaction_modes"], json!(["split", "in_place"]));
    assert_eq!(features["stream_events_header"], "X-Hermes-Events");
    assert_eq!((&features["runs"], &features["run_events_resume"]), (&json!(true), &json!("Last-Event-ID")));
    assert_eq!(capabilities["limits"]["body_bytes"], 10_000_000);
    assert_eq!(capabilities["limits"]["name_bytes"], 256);
    for (name, endpoint) in capabilities["endpoints"].as_object().expect("endpoints") {
        let method = endpoint["method"].as_str().expect("a method");
        let path = concrete(endpoint["path"].as_str().expect("a path"));
        answers(&gateway, method, &path, name).await;
    }
}

#[tokio::test]
async fn the_description_lists_only_routes_that_answer() {
    let gateway = TestGateway::start().await;
    let document = gateway.client().get("/openapi.json").await.expect(200);
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")));
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.contains_key("/v1/chat/completions") && !paths.contains_key("/api/jobs"));
    for (path, methods) in paths {
        for method in methods.as_object().expect("methods").keys() {
            let concrete = concrete(path);
            assert!(!concrete.contains('{'), "{path}");
            answers(&gateway, &method.to_uppercase(), &concrete, path).await;
        }
    }
}

/// Replaces every parameter of a path with a value.
fn concrete(path: &str) -> String {
    let named = [
        ("{alias}", "nobody"),
        ("{id}", "scripted"),
        ("{message_id}", "nothing"),
        ("{item_id}", "nothing"),
        ("{key}", "nobody"),
        // Without an invalid parameter this stream would never end.
        ("/api/events", "/api/events?starting_after=nothing"),
    ];
    named.into_iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value))
}

/// Checks that a route exists. It may refuse the request, but not as an unknown route or method.
async fn answers(gateway: &TestGateway, method: &str, path: &str, name: &str) {
    let answer = gateway.client().send_json(method, path, &json!({})).await;
    let is_missing = answer.status == 405 || (answer.status == 404 && answer.text().contains("no such route"));
    assert!(!is_missing && answer.status < 500, "{name}: {method} {path}: {}", answer.text());
}

#[tokio::test]
async fn metrics_count_turns_and_never_name_anybody() {
    let gateway = TestGateway::start().await;
    let client = gateway.in_session("secret-session").header(SESSION_KEY, "secret-key");
    let first = client.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    gateway.upstream.push(Reply::status(400, "no"));
    gateway.say("secret-session", "broken").await;
    gateway.client().get("/api/sessions/secret-session").await.expect(200);
    gateway.client().get("/secret-path").await;
    let metrics = gateway.client().get("/metrics").await;
    let text = metrics.text();
    for line in [
        r#"herma_turns_total{outcome="completed"} 1"#,
        r#"herma_turns_total{outcome="upstream_error"} 1"#,
        "herma_input_tokens_total 2",
        "herma_output_tokens_total 3",
        "herma_live_turns 0",
        r#"herma_http_requests_total{method="GET",route="/api/sessions/{alias}",status="200"} 1"#,
        "# EOF",
    ] {
        assert!(text.contains(line), "{line} is to be in\n{text}");
    }
    let conversation = first["session"]["conversation_id"].as_str().expect("a handle");
    for word in ["secret", "conv_", "turn_", "sess_", conversation, "test-key"] {
        assert!(!text.replace("herma_turn_seconds", "").contains(word), "{word} in\n{text}");
    }
}

#[tokio::test]
async fn capabilities_name_every_feature_of_hermes_as_it_is_here() {
    let gateway = TestGateway::start().await;
    let capabilities = gateway.client().get("/v1/capabilities").await.expect(200);
    let features = &capabilities["features"];
    let there = "chat_completions chat_completions_streaming responses_api responses_streaming run_submission \
                 run_status run_events_sse run_stop session_resources session_chat session_chat_streaming session_fork \
                 memory_write_api";
    for name in there.split_whitespace() {
        assert_eq!(features[name], true, "{name}");
    }
    let absent = "run_approval_response tool_progress_events approval_events skills_api admin_config_rw jobs_admin \
                  audio_api realtime_voice cors";
    for name in absent.split_whitespace() {
        assert_eq!(features[name], false, "{name}");
    }
    assert_eq!(features["session_continuity_header"], "X-Hermes-Session-Id");
    assert_eq!(features["session_key_header"], "X-Hermes-Session-Key");
    let paths: Vec<&str> = capabilities["endpoints"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(|endpoint| endpoint["path"].as_str())
        .collect();
    for path in ["/api/sessions/{alias}/chat", "/api/sessions/{alias}/chat/stream", "/api/sessions/{alias}/fork"] {
        assert!(paths.contains(&path), "{path} is announced, so it is there");
    }
}

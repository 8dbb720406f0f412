//! A history finds the conversation that it continues. Where it leaves the transcript, a branch begins.

use herma_testkit::{Gate, Reply, ToolCall};
use serde_json::json;

use super::{RESPONSES, Thread, item, kinds, session};
use crate::support::{CHAT, SESSION_KEY, TestGateway, assistant, chat, lines, result, streamed, system, user};

#[tokio::test]
async fn a_history_continues_its_conversation_after_a_restart_too() {
    let mut gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let first = thread.say(&gateway, "one", "two").await;
    assert_eq!(session(&first).1, "created");
    let second = thread.say(&gateway, "three", "four").await;
    assert_eq!(session(&second), (session(&first).0, "head"));
    gateway.restart().await;
    let third = thread.say(&gateway, "five", "six").await;
    assert_eq!(session(&third), (session(&first).0, "head"));
    assert_eq!(gateway.sessions().await.len(), 1);
    let said = ["user: one", "assistant: two", "user: three", "assistant: four", "user: five", "assistant: six"];
    assert_eq!(gateway.transcript(&session(&first).0).await, said);
    assert_eq!(gateway.context(), said[..5]);
}

#[tokio::test]
async fn a_streamed_thread_with_parts_and_a_system_message_is_one_conversation() {
    let gateway = TestGateway::start().await;
    let mut history = vec![system("Be brief."), user("one")];
    for (answer, next) in [("two ", "three"), ("four", "five")] {
        gateway.upstream.push(Reply::text(answer));
        gateway.client().post_stream(CHAT, &streamed(chat(&history))).await.text().await;
        history
            .push(json!({"role": "assistant", "content": [{"type": "text", "text": answer.trim()}], "refusal": null}));
        history.push(user(next));
    }
    assert_eq!(gateway.sessions().await.len(), 1);
    assert_eq!(gateway.context(), ["system: Be brief.", "user: one", "assistant: two ", "user: three"]);
}

#[tokio::test]
async fn a_regenerated_and_an_edited_message_make_branches_that_are_found_again() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let first = thread.say(&gateway, "one", "two").await;
    thread.say(&gateway, "three", "four").await;
    let mut again = thread.clone();
    again.history.pop();
    let regenerated = again.ask(&gateway, "FOUR").await;
    assert_eq!(session(&regenerated).1, "branched");
    assert_eq!(regenerated["session"]["provenance"]["parent_relation"], "branch");
    let mut edited = thread.clone();
    edited.history.truncate(2);
    let branch = edited.say(&gateway, "THREE", "other").await;
    assert_eq!(session(&branch).1, "branched");
    for (thread, body) in [(&mut again, &regenerated), (&mut edited, &branch), (&mut thread, &first)] {
        let next = thread.say(&gateway, "next", "after that").await;
        assert_eq!(session(&next), (session(body).0, "head"));
        assert_eq!(gateway.transcript(&session(body).0).await, lines(&thread.history));
    }
    assert_eq!(kinds(&gateway).await, ["branch", "branch", "main"]);
}

#[tokio::test]
async fn a_branch_without_turns_is_continued_by_a_request_with_its_history() {
    let mut gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let first = session(&thread.say(&gateway, "one", "two").await).0;
    let (mut early, mut late) = (thread.clone(), Thread::default());
    thread.say(&gateway, "three", "four").await;
    late.history.clone_from(&thread.history);
    let branch = async |gateway: &TestGateway, at: serde_json::Value| {
        let made = gateway.client().post_json(&format!("/api/sessions/{first}/branch"), &at).await.expect(201);
        made["conversation_id"].as_str().unwrap().to_owned()
    };
    let rows = gateway.rows(&first).await;
    let at_two = branch(&gateway, json!({"at": rows[1]["id"]})).await;
    let body = early.say(&gateway, "THREE", "other").await;
    assert_eq!(session(&body), (at_two.clone(), "head"), "the source does not end there");
    assert_eq!(gateway.context(), ["user: one", "assistant: two", "user: THREE"]);

    let at_end = branch(&gateway, json!({})).await;
    let body = late.say(&gateway, "five", "six").await;
    assert_eq!(session(&body), (at_end.clone(), "head"), "of two that end there the newest counts");
    let body = thread.say(&gateway, "FIVE", "SIX").await;
    assert_eq!(session(&body), (first.clone(), "head"), "the branch has gone on");
    gateway.restart().await;
    for (thread, conversation) in [(&mut early, &at_two), (&mut late, &at_end), (&mut thread, &first)] {
        let body = thread.say(&gateway, "more", "yes").await;
        assert_eq!(session(&body), (conversation.clone(), "head"));
    }
    assert_eq!(kinds(&gateway).await, ["branch", "branch", "main"]);
}

#[tokio::test]
async fn a_single_opening_never_matches_and_two_people_stay_apart() {
    let gateway = TestGateway::start().await;
    let (mut one, mut two) = (Thread::default(), Thread::default());
    let first = one.say(&gateway, "hello", "hi").await;
    let second = two.say(&gateway, "hello", "hi").await;
    assert_ne!(session(&first).0, session(&second).0);
    let third = one.say(&gateway, "I am Ann", "hello Ann").await;
    let fourth = two.say(&gateway, "I am Bob", "hello Bob").await;
    assert_ne!(session(&third).0, session(&fourth).0);
    assert_eq!(gateway.context(), ["user: hello", "assistant: hi", "user: I am Bob"]);
    assert_eq!(gateway.sessions().await.len(), 2, "both continue where they can");
    let mut keyed = Thread { history: one.history.clone(), headers: vec![(SESSION_KEY, "carol".to_owned())] };
    let fifth = keyed.say(&gateway, "more", "yes").await;
    assert_eq!(session(&fifth).1, "created", "another session key is another person");
}

#[tokio::test]
async fn a_session_key_that_comes_later_counts_for_all_of_the_history() {
    let mut gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let first = thread.say(&gateway, "one", "two").await;
    let client = gateway.client().header(SESSION_KEY, "ann").header("x-hermes-conversation-id", &session(&first).0);
    gateway.upstream.push(Reply::text("four"));
    client.post_json(CHAT, &chat(&[user("three")])).await.expect(200);
    gateway.restart().await;
    thread.headers.push((SESSION_KEY, "ann".to_owned()));
    let mut edited = thread.clone();
    let branch = edited.say(&gateway, "THREE", "other").await;
    assert_eq!(session(&branch).1, "branched", "it leaves the transcript where there was no key yet");
    thread.history.extend([user("three"), assistant("four")]);
    let next = thread.say(&gateway, "five", "six").await;
    assert_eq!(session(&next), (session(&first).0, "head"));
    let mut keyless = Thread { headers: Vec::new(), ..thread.clone() };
    assert_eq!(session(&keyless.say(&gateway, "more", "yes").await).1, "created");
}

#[tokio::test]
async fn tool_rounds_of_a_clients_own_agent_are_one_conversation() {
    let gateway = TestGateway::start().await;
    let calls = [ToolCall::new("a", "look", r#"{"at":"x","deep":1}"#), ToolCall::new("b", "look", "{}")];
    gateway.upstream.push(Reply::tool_calls(calls));
    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
    let ask = |messages: &[serde_json::Value]| json!({"model": "m", "messages": messages, "tools": tools});
    let first = gateway.client().post_json(CHAT, &ask(&[user("go")])).await.expect(200);
    // The client writes the arguments anew, and sends the results in another order later.
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}});
    let called = json!({"role": "assistant", "content": "",
        "tool_calls": [call("a", r#"{ "deep": 1, "at": "x" }"#), call("b", "")]});
    gateway.upstream.push(Reply::text("found"));
    let history = [user("go"), called.clone(), result("a", "1"), result("b", "2")];
    let second = gateway.client().post_json(CHAT, &ask(&history)).await.expect(200);
    assert_eq!(session(&second), (session(&first).0, "head"));
    gateway.upstream.push(Reply::text("bye"));
    let history = [user("go"), called, result("b", "2"), result("a", "1"), assistant("found"), user("thanks")];
    let third = gateway.client().post_json(CHAT, &ask(&history)).await.expect(200);
    assert_eq!(session(&third), (session(&first).0, "head"));
    assert_eq!(gateway.rows(&session(&first).0).await.len(), 7);
}

#[tokio::test]
async fn an_answer_is_known_without_the_thoughts_that_it_begins_with() {
    let mut gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let first = thread.say(&gateway, "one", "<think>\nA number.\n</think>\n\ntwo").await;
    let mut whole = thread.clone();
    thread.history[1] = assistant("two");
    let second = thread.say(&gateway, "three", "four").await;
    assert_eq!(session(&second), (session(&first).0, "head"));
    assert_eq!(gateway.context(), ["user: one", "assistant: two", "user: three"], "as the request has it");
    assert!(gateway.transcript(&session(&first).0).await[1].contains("A number."), "the transcript keeps all of it");
    gateway.restart().await;
    let third = thread.say(&gateway, "five", "six").await;
    assert_eq!(session(&third), (session(&first).0, "head"));
    assert_eq!(gateway.context()[1], "assistant: two");
    let branch = whole.say(&gateway, "THREE", "other").await;
    assert_eq!(session(&branch).1, "branched");
    assert!(gateway.context()[1].contains("A number."), "a client that keeps the thoughts sends them");
    let mut quoted = Thread::default();
    let other = quoted.say(&gateway, "quote", "it says <think>no</think> yes").await;
    quoted.history[1] = assistant("it says yes");
    assert_ne!(session(&quoted.say(&gateway, "more", "yes").await).0, session(&other).0, "only at the beginning");
}

#[tokio::test]
async fn responses_with_their_whole_input_are_one_conversation() {
    let gateway = TestGateway::start().await;
    let respond = async |input: serde_json::Value, answer: &str| {
        gateway.upstream.push(Reply::text(answer));
        gateway.client().post_json(RESPONSES, &json!({"model": "m", "input": input})).await.expect(200)
    };
    let first = respond(json!("one"), "two").await;
    let id = &first["output"][0]["id"];
    let by_reference = json!([item("user", "one"), {"type": "item_reference", "id": id}, item("user", "three")]);
    let second = respond(by_reference, "four").await;
    assert_eq!(session(&second), (session(&first).0, "head"));
    let whole = json!([
        item("user", "one"),
        first["output"][0],
        item("user", "three"),
        second["output"][0],
        item("user", "five")
    ]);
    let third = respond(whole, "six").await;
    assert_eq!(session(&third), (session(&first).0, "head"));
    let mut thread = Thread {
        history: vec![user("one"), assistant("two"), user("three"), assistant("four"), user("five"), assistant("six")],
        ..Thread::default()
    };
    let by_chat = thread.say(&gateway, "seven", "eight").await;
    assert_eq!(session(&by_chat), (session(&first).0, "head"), "by both APIs");
    assert_eq!(gateway.rows(&session(&first).0).await.len(), 8);
}

#[tokio::test]
async fn parallel_calls_that_come_back_one_after_the_other_are_known() {
    let gateway = TestGateway::start().await;
    let tools = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let respond = async |input: &[serde_json::Value]| {
        let body = json!({"model": "m", "input": input, "tools": tools});
        gateway.client().post_json(RESPONSES, &body).await.expect(200)
    };
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": format!("result {id}")});
    let calls = |ids: &[&str]| Reply::tool_calls(ids.iter().map(|id| ToolCall::new(id, "look", "{}")));
    let mut input = vec![item("user", "go")];
    let mut conversation = None;
    // Two at once, then one, then three at once, and an answer.
    for ids in [&["a", "b"][..], &["c"], &["d", "e", "f"], &[]] {
        gateway.upstream.push(if ids.is_empty() { Reply::text("found") } else { calls(ids) });
        let body = respond(&input).await;
        let expected = conversation.get_or_insert_with(|| session(&body).0);
        assert_eq!(session(&body).0, *expected, "before {ids:?}");
        for (call, id) in body["output"].as_array().unwrap().iter().zip(ids) {
            input.extend([call.clone(), output(id)]);
        }
    }
    input.extend([item("assistant", "found"), item("user", "thanks")]);
    gateway.upstream.push(Reply::text("bye"));
    let last = respond(&input).await;
    assert_eq!(session(&last), (conversation.clone().unwrap(), "head"));
    assert_eq!(gateway.sessions().await.len(), 1);
    let roles: Vec<_> = gateway.rows(&session(&last).0).await.iter().map(|row| row["role"].to_string()).collect();
    assert_eq!(roles.iter().filter(|role| *role == "\"tool\"").count(), 6, "{roles:?}");
    assert_eq!(roles.len(), 1 + (1 + 2) + (1 + 1) + (1 + 3) + 1 + 2);
}

#[tokio::test]
async fn without_store_and_without_a_chat_nothing_is_kept() {
    let gateway = TestGateway::start().await;
    let body = json!({"model": "m", "input": "one", "store": false});
    gateway.client().post_json(RESPONSES, &body).await.expect(200);
    assert_eq!(gateway.sessions().await.len(), 0);
}

#[tokio::test]
async fn a_failed_message_is_tried_again_in_its_conversation() {
    let gateway = TestGateway::with_settings(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    let mut thread = Thread::default();
    let first = thread.say(&gateway, "one", "two").await;
    thread.history.push(user("three"));
    gateway.upstream.push(Reply::status(400, "no"));
    assert_eq!(thread.send(&gateway).await.status, 502);
    let again = thread.ask(&gateway, "four").await;
    assert_eq!(session(&again), (session(&first).0, "head"));
    assert_eq!(gateway.context(), ["user: one", "assistant: two", "user: three"], "no note of the failure");
    thread.history.push(user("five"));
    gateway.upstream.push(Reply::status(400, "no"));
    assert_eq!(thread.send(&gateway).await.status, 502);
    thread.history.pop();
    thread.say(&gateway, "six", "seven").await;
    assert_eq!(gateway.context()[4..], ["user: six"], "the client has dropped it, so the model is not shown it");
    assert!(gateway.transcript(&session(&first).0).await.contains(&"user: five".to_owned()));
    let last = thread.say(&gateway, "eight", "nine").await;
    assert_eq!(session(&last), (session(&first).0, "head"), "the client never sends the failed message again");
    assert_eq!(gateway.sessions().await.len(), 1);
}

#[tokio::test]
async fn of_two_requests_with_one_history_the_second_makes_a_branch() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let first = thread.say(&gateway, "one", "two").await;
    let gate = Gate::new();
    gateway.upstream.push(Reply::text("left").held(&gate));
    gateway.upstream.push(Reply::text("right"));
    let (mut left, mut right) = (thread.clone(), thread.clone());
    left.history.push(user("a"));
    right.history.push(user("b"));
    let (left, right) = tokio::join!(left.send(&gateway), async {
        gateway.upstream.until_requests(2).await;
        // Whether it comes before or after the other's end, the other was first.
        tokio::join!(right.send(&gateway), async { gate.open() }).0
    });
    assert_eq!(session(&left.expect(200)), (session(&first).0, "head"));
    assert_eq!(session(&right.expect(200)).1, "branched");
    assert_eq!(gateway.context(), ["user: one", "assistant: two", "user: b"]);
}

#[tokio::test]
async fn a_long_history_and_one_that_herma_compacted_are_found() {
    let gateway = TestGateway::with_settings(&[("HERMA_CONTEXT_WINDOW", "2000")]).await;
    gateway.upstream.otherwise(|request| Reply::text(format!("answer {}", request.messages().len())));
    let mut thread = Thread::default();
    let mut conversation = None;
    for turn in 0..40 {
        thread.history.push(user(&format!("question {turn} {}", "word ".repeat(40))));
        let body = thread.send(&gateway).await.expect(200);
        let (id, resolution) = session(&body);
        assert_eq!(resolution, if turn == 0 { "created" } else { "head" }, "turn {turn}");
        assert_eq!(*conversation.get_or_insert(id.clone()), id);
        thread.history.push(assistant(body["choices"][0]["message"]["content"].as_str().unwrap()));
    }
    let row = gateway.client().get(&format!("/api/sessions/{}", conversation.unwrap())).await.expect(200);
    assert!(row["provenance"]["compaction_count"].as_u64().unwrap() > 0, "{row}");
    assert_eq!(gateway.sessions().await.len(), 1);
}

#[tokio::test]
async fn requests_that_begin_with_the_same_examples_stay_apart() {
    let gateway = TestGateway::start().await;
    let examples = vec![user("good film"), assistant("positive"), user("bad film"), assistant("negative")];
    let mut one = Thread { history: examples.clone(), ..Thread::default() };
    let mut two = Thread { history: examples, ..Thread::default() };
    let first = one.say(&gateway, "my own letter", "positive").await;
    let second = two.say(&gateway, "long film", "negative").await;
    assert_eq!(session(&second).1, "created");
    assert_eq!(gateway.context(), lines(&two.history[..5]), "the model sees nothing of the other request");
    let third = one.say(&gateway, "why?", "because").await;
    assert_eq!(session(&third), (session(&first).0, "head"));
}

#[tokio::test]
async fn the_model_is_shown_the_system_messages_of_the_request_alone() {
    let mut gateway = TestGateway::start().await;
    let mut plain = Thread::default();
    plain.say(&gateway, "hello", "hi").await;
    let mut instructed = Thread { history: vec![system("The code is 7.")], ..Thread::default() };
    instructed.say(&gateway, "hello", "hi").await;
    let next = plain.say(&gateway, "more", "yes").await;
    assert_eq!(gateway.context(), ["user: hello", "assistant: hi", "user: more"]);
    gateway.restart().await;
    assert_eq!(gateway.model_view(&session(&next).0).await.len(), 4, "nor is it stored for later turns");
}

#[tokio::test]
async fn a_history_that_ends_in_an_answer_is_continued_any_number_of_times() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::of_chat("c1");
    let first = thread.say(&gateway, "count", "one, two").await;
    for (resolution, answer) in [("head", ", three"), ("branched", ", THREE"), ("branched", ", Three")] {
        let body = thread.clone().ask(&gateway, answer).await;
        assert_eq!(session(&body).1, resolution);
        assert_eq!(gateway.context(), ["user: count", "assistant: one, two"]);
    }
    assert_eq!(gateway.transcript(&session(&first).0).await.len(), 3);
}

#[tokio::test]
async fn a_history_of_an_ended_conversation_makes_a_branch() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let first = thread.say(&gateway, "one", "two").await;
    let end = format!("/api/sessions/{}/end", session(&first).0);
    gateway.client().post_json(&end, &json!({})).await.expect(200);
    let next = thread.say(&gateway, "three", "four").await;
    assert_eq!(session(&next).1, "branched");
    assert_eq!(gateway.context(), ["user: one", "assistant: two", "user: three"]);
}

#[tokio::test]
async fn a_message_of_another_client_that_failed_is_not_shown() {
    let gateway = TestGateway::with_settings(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    let (mut ann, mut bob) = (Thread::default(), Thread::default());
    ann.say(&gateway, "hello", "hi").await;
    bob.history.clone_from(&ann.history);
    ann.history.push(user("Ann's secret"));
    gateway.upstream.push(Reply::status(400, "no"));
    assert_eq!(ann.send(&gateway).await.status, 502);
    bob.say(&gateway, "I am Bob", "hello Bob").await;
    assert_eq!(gateway.context(), ["user: hello", "assistant: hi", "user: I am Bob"]);
    bob.say(&gateway, "more", "yes").await;
    assert!(!gateway.context().iter().any(|line| line.contains("secret")), "{:?}", gateway.context());
    gateway.upstream.push(Reply::text("noted"));
    ann.send(&gateway).await.expect(200);
    assert!(!gateway.context().iter().any(|line| line.contains("Bob")), "{:?}", gateway.context());
}

#[tokio::test]
async fn a_background_request_that_comes_again_behind_another_clients_turn_shows_its_own_history_alone() {
    let gateway = TestGateway::with_settings(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    let mut bob = Thread::default();
    bob.say(&gateway, "hello", "hi").await;
    let input = json!([item("user", "hello"), item("assistant", "hi"), item("user", "Ann's question")]);
    let body = json!({"model": "m", "input": input, "background": true});
    let client = || gateway.client().header("idempotency-key", "k");
    gateway.upstream.push(Reply::status(400, "no"));
    let failed = client().post_json(RESPONSES, &body).await.expect(200);
    let failed = until_ended(&gateway, &failed).await;
    assert_eq!(failed["status"], "failed");

    // Bob's turn runs while Ann's request comes again, so her request waits.
    let gate = Gate::new();
    gateway.upstream.push(Reply::text("hello Bob").held(&gate));
    gateway.upstream.push(Reply::text("her answer"));
    bob.history.push(user("Bob's secret"));
    let (said, again) = tokio::join!(bob.send(&gateway), async {
        gateway.upstream.until_requests(3).await;
        let again = client().post_json(RESPONSES, &body).await.expect(200);
        gate.open();
        again
    });
    said.expect(200);
    let answered = until_ended(&gateway, &again).await;
    assert_eq!((&answered["status"], session(&answered).1), (&json!("completed"), "branched"));
    assert_eq!(gateway.context(), ["user: hello", "assistant: hi", "user: Ann's question"]);

    // And once more, behind turns that have ended.
    let other = json!([item("user", "hello"), item("assistant", "hi"), item("user", "Eve's question")]);
    let body = json!({"model": "m", "input": other, "background": true});
    let client = || gateway.client().header("idempotency-key", "e");
    gateway.upstream.push(Reply::status(400, "no"));
    until_ended(&gateway, &client().post_json(RESPONSES, &body).await.expect(200)).await;
    bob.history.push(assistant("hello Bob"));
    bob.say(&gateway, "more of Bob's secret", "yes").await;
    gateway.upstream.push(Reply::text("her answer"));
    until_ended(&gateway, &client().post_json(RESPONSES, &body).await.expect(200)).await;
    assert_eq!(gateway.context(), ["user: hello", "assistant: hi", "user: Eve's question"]);
}

/// Waits until a background response has ended.
async fn until_ended(gateway: &TestGateway, begun: &serde_json::Value) -> serde_json::Value {
    let path = format!("{RESPONSES}/{}", begun["id"].as_str().unwrap());
    let since = std::time::Instant::now();
    loop {
        let body = gateway.client().get(&path).await.expect(200);
        if !["queued", "in_progress"].contains(&body["status"].as_str().unwrap()) {
            return body;
        }
        assert!(since.elapsed() < herma_testkit::PATIENCE, "it was to end: {body}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_failed_message_that_comes_again_behind_another_clients_turn_makes_a_branch() {
    let gateway = TestGateway::with_settings(&[("HERMA_UPSTREAM__RETRIES", "0")]).await;
    let mut ann = Thread::default();
    let first = ann.say(&gateway, "hello", "hi").await;
    let mut bob = ann.clone();
    ann.headers.push(("idempotency-key", "k".to_owned()));
    ann.history.push(user("Ann's question"));
    gateway.upstream.push(Reply::status(400, "no"));
    assert_eq!(ann.send(&gateway).await.status, 502);
    bob.say(&gateway, "I am Bob", "hello Bob").await;
    let again = ann.ask(&gateway, "her answer").await;
    assert_eq!(session(&again).1, "branched");
    assert_eq!(gateway.context(), ["user: hello", "assistant: hi", "user: Ann's question"]);
    ann.headers.clear();
    let next = ann.say(&gateway, "more", "yes").await;
    assert_eq!(session(&next), (session(&again).0, "head"));
    assert_ne!(session(&next).0, session(&first).0);
}

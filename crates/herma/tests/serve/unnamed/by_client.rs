//! Clients that change or compact their history themselves.

use herma_testkit::{Gate, Reply, ToolCall};
use serde_json::{Value, json};

use super::{RESPONSES, Thread, item, session};
use crate::support::{TestGateway, assistant, data, lines, user};

const LONG: &str = "I have changed the file so that it now prints the sum of all of the numbers.";

async fn ledger(gateway: &TestGateway, conversation: &str) -> Vec<Value> {
    data(&gateway.client().get(&format!("/api/sessions/{conversation}/compactions")).await)
}

/// Waits until a turn waits behind another one.
async fn until_queued(gateway: &TestGateway) {
    let stored = rusqlite::Connection::open(gateway.herma.data().join("herma.db")).unwrap();
    let began = std::time::Instant::now();
    let waits =
        || stored.query_row("SELECT count(*) FROM turns WHERE state = 'queued'", [], |row| row.get::<_, i64>(0));
    while waits().unwrap() == 0 {
        assert!(began.elapsed() < herma_testkit::PATIENCE, "a turn was to wait");
        tokio::task::yield_now().await;
    }
}

/// A thread of three turns.
async fn three_turns(gateway: &TestGateway, thread: &mut Thread) -> String {
    let mut conversation = String::new();
    for turn in 1..=3 {
        conversation = session(&thread.say(gateway, &format!("u{turn}"), &format!("a{turn}")).await).0;
    }
    conversation
}

#[tokio::test]
async fn a_message_without_what_its_client_had_added_is_known() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let first = thread.say(&gateway, "Print the sum.\n\nReply in English.", LONG).await;
    thread.history[0] = user("Print the sum.");
    let second = thread.say(&gateway, "Now the mean.\n\nReply in English.", &format!("{LONG} And the mean.")).await;
    assert_eq!(session(&second), (session(&first).0, "head"));
    thread.history[2] = user("Now the mean.");
    let third = thread.say(&gateway, "Thanks.\n\nReply in English.", "You are welcome.").await;
    assert_eq!(session(&third), (session(&first).0, "head"));
    assert_eq!(gateway.rows(&session(&first).0).await.len(), 6);
}

#[tokio::test]
async fn a_history_cut_at_the_front_shows_the_model_no_more_than_it_has() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let conversation = three_turns(&gateway, &mut thread).await;
    thread.history.drain(..2);
    let fourth = thread.say(&gateway, "u4", "a4").await;
    assert_eq!(session(&fourth), (conversation.clone(), "head"));
    let context = gateway.context();
    assert!(!context.iter().any(|line| line.contains("u1") || line.contains("a1")), "{context:?}");
    assert_eq!(context[1..], ["user: u2", "assistant: a2", "user: u3", "assistant: a3", "user: u4"]);
    let rows = ledger(&gateway, &conversation).await;
    assert_eq!((rows.len(), &rows[0]["made_by"], &rows[0]["outcome"]), (1, &json!("client"), &json!("trimmed")));
    let fifth = thread.say(&gateway, "u5", "a5").await;
    assert_eq!(session(&fifth), (conversation.clone(), "head"), "the next request is found by its history");
    assert_eq!(ledger(&gateway, &conversation).await.len(), 1);
    assert_eq!(gateway.transcript(&conversation).await.len(), 11, "five turns, and the note");
}

#[tokio::test]
async fn a_summary_of_the_client_is_an_entry_of_the_ledger() {
    let mut gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let conversation = three_turns(&gateway, &mut thread).await;
    thread.history = vec![user("Summary: they counted."), user("u3"), assistant("a3")];
    let fourth = thread.say(&gateway, "u4", "a4").await;
    assert_eq!(session(&fourth), (conversation.clone(), "head"));
    assert_eq!(gateway.context(), ["user: Summary: they counted.", "user: u3", "assistant: a3", "user: u4"]);
    let rows = ledger(&gateway, &conversation).await;
    assert_eq!((&rows[0]["made_by"], &rows[0]["summary"]), (&json!("client"), &json!("Summary: they counted.")));
    gateway.restart().await;
    thread.say(&gateway, "u5", "a5").await;
    assert_eq!(gateway.context()[1..], lines(&thread.history)[1..6]);
    assert_eq!(gateway.sessions().await.len(), 1);
}

#[tokio::test]
async fn a_context_without_answers_is_recognised_in_its_chat() {
    let gateway = TestGateway::start().await;
    let codex = gateway.client().header("session-id", "s");
    let respond = async |input: &[Value], answer: &str| {
        gateway.upstream.push(Reply::text(answer));
        codex.post_json(RESPONSES, &json!({"model": "m", "input": input, "store": false})).await.expect(200)
    };
    let mut history = vec![item("user", "about the place")];
    let mut conversation = String::new();
    for turn in 1..=3 {
        history.push(item("user", &format!("u{turn}")));
        conversation = session(&respond(&history, &format!("a{turn}")).await).0;
        history.push(item("assistant", &format!("a{turn}")));
    }
    let before = gateway.rows(&conversation).await.len();
    let mut compacted = vec![
        item("user", "u1"),
        item("user", "u2"),
        item("user", "u3"),
        item("user", "about the place"),
        item("user", "In short: they counted."),
        item("user", "u4"),
    ];
    let fourth = respond(&compacted, "a4").await;
    assert_eq!(session(&fourth), (conversation.clone(), "head"));
    let shown =
        ["user: about the place", "user: u1", "user: u2", "user: u3", "user: In short: they counted.", "user: u4"];
    assert_eq!(gateway.context(), shown);
    let rows = ledger(&gateway, &conversation).await;
    assert_eq!((&rows[0]["made_by"], &rows[0]["summary"]), (&json!("client"), &json!("In short: they counted.")));
    assert_eq!(gateway.rows(&conversation).await.len(), before + 3, "the question, the answer and the summary");
    compacted.extend([item("assistant", "a4"), item("user", "u5")]);
    let fifth = respond(&compacted, "a5").await;
    assert_eq!(session(&fifth), (conversation.clone(), "head"));
    assert_eq!(gateway.context().len(), 8);
    let undo = format!("/api/sessions/{conversation}/compactions/{}/undo", rows[0]["id"].as_str().unwrap());
    gateway.client().post_json(&undo, &json!({})).await.expect(200);
    assert_eq!(gateway.model_view(&conversation).await.len(), before + 4, "all that was said is shown again");
}

/// A client that asks for a summary under its ids, as Codex does, and then sends it in place of its history.
struct Codex<'a> {
    gateway: &'a TestGateway,
}

impl Codex<'_> {
    async fn respond(&self, input: &[Value], reply: Reply) -> Value {
        self.send(input, reply, "turn").await
    }

    async fn summarise(&self, input: &[Value], summary: &str) {
        let asked: Vec<Value> = input.iter().cloned().chain([item("user", "Summarise this.")]).collect();
        let body = self.send(&asked, Reply::text(summary), "compaction").await;
        assert_eq!(body["session"]["provenance"]["kind"], "auxiliary");
    }

    async fn send(&self, input: &[Value], reply: Reply, kind: &str) -> Value {
        self.gateway.upstream.push(reply);
        let metadata = json!({"request_kind": kind}).to_string();
        let client = self.gateway.client().header("session-id", "s").header("x-codex-turn-metadata", &metadata);
        let tools = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
        let body = json!({"model": "m", "input": input, "tools": tools, "store": false});
        client.post_json(RESPONSES, &body).await.expect(200)
    }
}

#[tokio::test]
async fn a_summary_right_after_the_first_answer_is_a_compaction() {
    let gateway = TestGateway::start().await;
    let codex = Codex { gateway: &gateway };
    let mut history = vec![item("user", "about the place"), item("user", "u1")];
    let first = codex.respond(&history, Reply::text("a1")).await;
    history.push(item("assistant", "a1"));
    codex.summarise(&history, "They counted.").await;
    let summary = item("user", "Another model wrote this summary.\n\nThey counted.");
    let compacted = vec![item("user", "about the place"), item("user", "u1"), summary, item("user", "u2")];
    let second = codex.respond(&compacted, Reply::text("a2")).await;
    assert_eq!(session(&second), (session(&first).0, "head"));
    let rows = ledger(&gateway, &session(&first).0).await;
    assert_eq!((rows.len(), &rows[0]["made_by"]), (1, &json!("client")));
    assert!(rows[0]["summary"].as_str().unwrap().ends_with("They counted."), "{rows:?}");
    assert_eq!(gateway.context().len(), 4);
}

#[tokio::test]
async fn a_summary_in_the_middle_of_the_work_is_a_compaction_and_the_work_continues() {
    let gateway = TestGateway::start().await;
    let codex = Codex { gateway: &gateway };
    let mut history = vec![item("user", "u1")];
    let first = codex.respond(&history, Reply::tool_calls([ToolCall::new("x", "look", "{}")])).await;
    history.push(json!({"type": "function_call", "call_id": "x", "name": "look", "arguments": "{}"}));
    history.push(json!({"type": "function_call_output", "call_id": "x", "output": "found"}));
    codex.summarise(&history, "It was found.").await;
    let mut compacted = vec![item("user", "u1"), item("user", "Summary: It was found.")];
    let second = codex.respond(&compacted, Reply::text("done")).await;
    assert_eq!(session(&second), (session(&first).0, "head"));
    assert_eq!(gateway.context(), ["user: u1", "user: Summary: It was found."]);
    compacted.extend([item("assistant", "done"), item("user", "u2")]);
    let third = codex.respond(&compacted, Reply::text("bye")).await;
    assert_eq!(session(&third), (session(&first).0, "head"));
    assert_eq!(gateway.context().len(), 4);
}

#[tokio::test]
async fn a_context_that_was_compacted_beside_a_running_turn_is_recognised() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let conversation = three_turns(&gateway, &mut thread).await;
    let gate = Gate::new();
    gateway.upstream.push(Reply::text("left").held(&gate));
    let mut left = thread.clone();
    left.history.push(user("u4"));
    thread.history = vec![user("Summary: they counted."), user("u3"), assistant("a3"), user("other")];
    thread.headers.push(("x-hermes-turn-policy", "branch".to_owned()));
    let (left, branch) = tokio::join!(left.send(&gateway), async {
        gateway.upstream.until_requests(4).await;
        let branch = thread.ask(&gateway, "right").await;
        gate.open();
        branch
    });
    assert_eq!(session(&left.expect(200)), (conversation, "head"));
    assert_eq!(session(&branch).1, "branched");
    let branch = session(&branch).0;
    assert_eq!(gateway.model_view(&branch).await, lines(&thread.history));
    assert_eq!(ledger(&gateway, &branch).await[0]["made_by"], "client");
}

#[tokio::test]
async fn a_compacted_context_that_waited_behind_another_turn_makes_a_branch() {
    for chat in [None, Some("c1")] {
        let gateway = TestGateway::start().await;
        let mut thread = chat.map_or_else(Thread::default, Thread::of_chat);
        let conversation = three_turns(&gateway, &mut thread).await;
        let gate = Gate::new();
        gateway.upstream.push(Reply::text("left").held(&gate));
        gateway.upstream.push(Reply::text("right"));
        let mut left = thread.clone();
        left.history.push(user("Ann's secret"));
        thread.history = vec![user("Summary: they counted."), user("u3"), assistant("a3"), user("other")];
        let (left, right) = tokio::join!(left.send(&gateway), async {
            gateway.upstream.until_requests(4).await;
            let opened = async {
                until_queued(&gateway).await;
                gate.open();
            };
            tokio::join!(thread.send(&gateway), opened).0
        });
        left.expect(200);
        let right = right.expect(200);
        let context = gateway.context();
        assert!(!context.iter().any(|line| line.contains("secret")), "{chat:?}: {context:?}");
        if chat.is_none() {
            assert_eq!(session(&right).1, "branched");
            assert_eq!(context, lines(&thread.history));
            let branch = session(&right).0;
            assert_eq!(ledger(&gateway, &branch).await[0]["made_by"], "client");
            assert_ne!(branch, conversation);
            thread.history.push(assistant("right"));
            let next = thread.say(&gateway, "more", "yes").await;
            assert_eq!(session(&next), (branch, "head"));
        }
    }
}

#[tokio::test]
async fn a_summary_of_the_client_is_recognised_in_responses_too() {
    let gateway = TestGateway::start().await;
    let mut thread = Thread::default();
    let conversation = three_turns(&gateway, &mut thread).await;
    let part = |role: &str, kind: &str, text: &str| json!({"role": role, "content": [{"type": kind, "text": text}]});
    let summary = "This session is continued from an earlier one. Summary: they counted.";
    let mut input = vec![part("user", "input_text", summary), part("user", "input_text", "u3")];
    input.push(part("assistant", "output_text", "a3"));
    input.push(part("user", "input_text", "u4"));
    gateway.upstream.push(Reply::text("a4"));
    let body = json!({"model": "m", "input": input, "instructions": "Be brief."});
    let fourth = gateway.client().post_json(RESPONSES, &body).await.expect(200);
    assert_eq!(session(&fourth), (conversation.clone(), "head"));
    let shown = format!("user: {summary}");
    assert_eq!(gateway.context()[1..], [shown.as_str(), "user: u3", "assistant: a3", "user: u4"]);
    assert_eq!(ledger(&gateway, &conversation).await[0]["summary"], json!(summary));
    // Without any stored answer it could be the context of another person.
    let body = json!({"model": "m", "input": [item("user", summary), item("user", "u5")]});
    let fifth = gateway.client().post_json(RESPONSES, &body).await.expect(200);
    assert_eq!(session(&fifth).1, "created");
}

#[tokio::test]
async fn a_compacted_context_whose_turn_was_cancelled_is_not_stored_again() {
    let gateway = TestGateway::start().await;
    let codex = gateway.client().header("session-id", "s");
    let mut history = Vec::new();
    let mut conversation = String::new();
    for turn in 1..=3 {
        history.push(item("user", &format!("u{turn}")));
        gateway.upstream.push(Reply::text(format!("a{turn}")));
        let body = codex.post_json(RESPONSES, &json!({"model": "m", "input": history})).await.expect(200);
        conversation = session(&body).0;
        history.push(item("assistant", &format!("a{turn}")));
    }
    let input: Vec<Value> = ["u1", "u2", "u3", "In short: they counted.", "u4"].map(|text| item("user", text)).into();
    let gate = Gate::new();
    gateway.upstream.push(Reply::text("never").held(&gate));
    let asked = json!({"model": "m", "input": input, "background": true});
    let response = codex.post_json(RESPONSES, &asked).await.expect(200);
    gateway.upstream.until_requests(4).await;
    let cancel = format!("{RESPONSES}/{}/cancel", response["id"].as_str().unwrap());
    codex.post_json(&cancel, &json!({})).await.expect(200);
    gateway.upstream.push(Reply::text("a4"));
    let again = codex.post_json(RESPONSES, &json!({"model": "m", "input": input})).await.expect(200);
    assert_eq!(session(&again), (conversation.clone(), "head"));
    let asked = gateway.transcript(&conversation).await;
    assert_eq!(asked.iter().filter(|line| *line == "user: u1").count(), 1, "{asked:?}");
    gate.open();
}

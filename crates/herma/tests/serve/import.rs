//! Conversations that were imported from Hermes continue under every id that they had.

use std::process::{Command, Stdio};

use herma_testkit::HermesDatabase;
use herma_testkit::hermes::response_store;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{CHAT, SESSION_ID, TestGateway, assistant, chat, error, user};

const SUMMARY: &str = "user: [Summary of the conversation so far, in place of its earlier messages]\n\n";

/// A Hermes database, and a running gateway into whose store it is imported.
struct ImportTest {
    gateway: TestGateway,
    hermes: HermesDatabase,
    home: TempDir,
}

impl ImportTest {
    async fn start() -> Self {
        let home = TempDir::new().expect("a temporary directory");
        let hermes = HermesDatabase::new(home.path());
        Self { gateway: TestGateway::start().await, hermes, home }
    }

    fn import(&self) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herma"));
        command.args(["import", "hermes", "--json", "--data"]).arg(self.gateway.herma.data()).arg(self.hermes.path());
        let done = command.stdin(Stdio::null()).output().expect("a command that runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stdout).expect("a report")
    }
}

#[tokio::test]
async fn an_old_id_goes_on_with_the_whole_conversation() {
    let moved = ImportTest::start().await;
    moved.hermes.session("20260801_120000_abcdef", 1.0, &[("title", "A trip"), ("source", "telegram")]);
    moved.hermes.turn("20260801_120000_abcdef", "hello", "hi");
    moved.import();
    let ImportTest { gateway, .. } = &moved;
    let said = gateway.say("20260801_120000_abcdef", "more").await;
    let answer = said.expect(200);
    assert_eq!(gateway.context(), ["user: hello", "assistant: hi", "user: more"]);
    assert_eq!(said.header(SESSION_ID), Some("20260801_120000_abcdef"));
    let provenance = &answer["session"]["provenance"];
    assert_eq!((&provenance["kind"], &provenance["creator_kind"]), (&json!("main"), &json!("import")));
    let row = gateway.client().get("/api/sessions/20260801_120000_abcdef").await.expect(200);
    assert_eq!(
        (&row["title"], &row["source"], &row["message_count"]),
        (&json!("A trip"), &json!("telegram"), &json!(4))
    );
}

#[tokio::test]
async fn a_client_that_sends_its_whole_history_is_understood() {
    let moved = ImportTest::start().await;
    moved.hermes.session("s", 1.0, &[]);
    moved.hermes.turn("s", "hello", "hi");
    moved.hermes.turn("s", "more", "yes");
    moved.import();
    let history = [user("hello"), assistant("hi"), user("more"), assistant("yes"), user("and now?")];
    moved.gateway.in_session("s").post_json(CHAT, &chat(&history)).await.expect(200);
    assert_eq!(moved.gateway.transcript("s").await.len(), 6, "what was said is known");
    assert_eq!(moved.gateway.context().len(), 5);
}

#[tokio::test]
async fn every_id_of_a_compacted_chain_leads_to_its_head_and_the_model_sees_what_hermes_showed() {
    let moved = ImportTest::start().await;
    let hermes = &moved.hermes;
    hermes.session("first", 1.0, &[]);
    hermes.turn("first", "one", "1");
    hermes.turn("first", "two", "2");
    hermes.turn("first", "three", "3");
    hermes.end("first", "compression", 2.0);
    hermes.session("second", 2.0, &[("parent_session_id", "first")]);
    hermes.turn("second", "one", "1");
    hermes.summary("second", "they counted");
    hermes.turn("second", "three", "3");
    hermes.turn("second", "four", "4");
    moved.import();
    let gateway = &moved.gateway;
    let shown = |last: &str| -> Vec<String> {
        let summary = format!("{SUMMARY}they counted");
        let said = ["user: one", "assistant: 1", "user: three", "assistant: 3", "user: four", "assistant: 4"];
        std::iter::once(summary).chain(said.map(str::to_owned)).chain([last.to_owned()]).collect()
    };
    let answer = gateway.say("first", "five").await.expect(200);
    assert_eq!(gateway.context(), shown("user: five"));
    let session = &answer["session"];
    assert_eq!((&session["session_id"], &session["resolution"]), (&json!("second"), &json!("moved")));
    let provenance = &session["provenance"];
    assert_eq!((&provenance["compression_depth"], &provenance["compaction_mode"]), (&json!(1), &json!("split")));
    let whole: Vec<String> = gateway.transcript("second").await;
    let said: Vec<&String> = whole.iter().filter(|line| !line.starts_with("user: [Summary")).collect();
    assert_eq!(said.len(), 10, "all that was said, once: {whole:?}");
    let ledger = gateway.client().get("/api/sessions/first/compactions").await.expect(200);
    let row = &ledger["data"][0];
    assert_eq!(
        (&row["mode"], &row["session_before"], &row["session_after"]),
        (&json!("split"), &json!("first"), &json!("second"))
    );
}

#[tokio::test]
async fn a_compaction_in_place_shows_the_summary_and_what_follows() {
    let moved = ImportTest::start().await;
    let hermes = &moved.hermes;
    hermes.session("s", 1.0, &[]);
    hermes.turn("s", "one", "1");
    hermes.turn("s", "two", "2");
    hermes.archive("s");
    hermes.summary("s", "they counted");
    hermes.turn("s", "two", "2");
    hermes.turn("s", "three", "3");
    moved.import();
    let gateway = &moved.gateway;
    gateway.say("s", "four").await.expect(200);
    let summary = format!("{SUMMARY}they counted");
    let expected = [&*summary, "user: two", "assistant: 2", "user: three", "assistant: 3", "user: four"];
    assert_eq!(gateway.context(), expected);
    let ledger = gateway.client().get("/api/sessions/s/compactions").await.expect(200);
    assert_eq!((&ledger["data"][0]["mode"], ledger["data"].as_array().map(Vec::len)), (&json!("in_place"), Some(1)));
}

#[tokio::test]
async fn tools_and_questions_without_an_answer_are_told_as_they_were() {
    let moved = ImportTest::start().await;
    let hermes = &moved.hermes;
    let call = |id: &str| {
        format!(
            r#"[{{"id":"{id}","call_id":"{id}","type":"function","function":{{"name":"look","arguments":"{{}}"}}}}]"#
        )
    };
    hermes.session("s", 1.0, &[]);
    hermes.message("s", "user", Some("look"), &[]);
    hermes.message("s", "assistant", None, &[("tool_calls", &call("a")), ("reasoning", "I should look")]);
    hermes.message("s", "tool", Some("a tree"), &[("tool_call_id", "a"), ("tool_name", "look")]);
    hermes.message("s", "assistant", Some("A tree."), &[]);
    hermes.message("s", "user", Some("again"), &[]);
    hermes.message("s", "assistant", None, &[("tool_calls", &call("b"))]);
    hermes.message("s", "user", Some("never mind"), &[]);
    let report = moved.import();
    assert_eq!(report["problems"], json!([]));
    let gateway = &moved.gateway;
    gateway.say("s", "what did you see?").await.expect(200);
    let expected = [
        "user: look",
        "assistant a=look({})",
        "tool a: a tree",
        "assistant: A tree.",
        "user: again",
        "assistant b=look({})",
        "tool b: [This call was not executed.]",
        "user: never mind",
        "assistant: [No reply was given: the request was interrupted.]",
        "user: what did you see?",
    ];
    assert_eq!(gateway.context(), expected);
}

#[tokio::test]
async fn a_question_without_an_answer_can_be_asked_again() {
    let moved = ImportTest::start().await;
    moved.hermes.session("s", 1.0, &[]);
    moved.hermes.turn("s", "hello", "hi");
    moved.hermes.message("s", "user", Some("are you there?"), &[]);
    moved.import();
    let gateway = &moved.gateway;
    gateway.say("s", "are you there?").await.expect(200);
    assert_eq!(gateway.context(), ["user: hello", "assistant: hi", "user: are you there?"]);
    assert_eq!(gateway.transcript("s").await.len(), 4, "the model is called once");
}

#[tokio::test]
async fn slugs_and_response_ids_continue_their_conversations() {
    let moved = ImportTest::start().await;
    moved.hermes.session("0a0b0c0d-0000-4000-8000-000000000000", 1.0, &[]);
    moved.hermes.turn("0a0b0c0d-0000-4000-8000-000000000000", "hello", "hi");
    let id = "resp_0123456789abcdef0123456789ab";
    response_store(moved.home.path(), &[("my-trip", id)], &[(id, "0a0b0c0d-0000-4000-8000-000000000000")]);
    moved.import();
    let gateway = &moved.gateway;
    let by_slug = json!({ "input": "more", "conversation": "my-trip" });
    let first = gateway.client().post_json("/v1/responses", &by_slug).await.expect(200);
    assert_eq!(gateway.context(), ["user: hello", "assistant: hi", "user: more"]);
    let by_response = json!({ "input": "and more", "previous_response_id": id });
    let second = gateway.client().post_json("/v1/responses", &by_response).await.expect(200);
    assert_eq!(first["session"]["conversation_id"], second["session"]["conversation_id"]);
    assert_eq!(gateway.context().len(), 5);
    let unknown = json!({ "input": "x", "previous_response_id": "resp_0123456789abcdef0123456789ff" });
    let refused = gateway.client().post_json("/v1/responses", &unknown).await;
    assert_eq!(error(&refused, 404)["code"], "previous_response_not_found");
}

#[tokio::test]
async fn a_gateway_that_is_running_sees_what_the_next_import_brings() {
    let moved = ImportTest::start().await;
    moved.hermes.session("s", 1.0, &[]);
    moved.hermes.turn("s", "hello", "hi");
    moved.import();
    let gateway = &moved.gateway;
    assert_eq!(gateway.transcript("s").await, ["user: hello", "assistant: hi"]);
    moved.hermes.turn("s", "more", "yes");
    moved.import();
    gateway.say("s", "last").await.expect(200);
    assert_eq!(gateway.context(), ["user: hello", "assistant: hi", "user: more", "assistant: yes", "user: last"]);
    moved.hermes.turn("s", "too late", "no");
    assert_eq!(moved.import()["conversations"]["left"], 1);
    assert_eq!(gateway.transcript("s").await.len(), 6);
}

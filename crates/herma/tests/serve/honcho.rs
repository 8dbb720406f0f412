//! Memory by a Honcho server: what it is told and asked, what happens if it is slow, down or wrong, and erasure.

use std::time::{Duration, Instant};

use herma_gateway::access::{KeyGrant, create_key};
use herma_store::Store as _;
use herma_store_sqlite::SqliteStore;
use herma_testkit::{Client, FakeHoncho, HonchoConclusion, HonchoMessage, Mood, PATIENCE, Reply};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::erasure::found;
use crate::support::{CHAT, SESSION_ID, SESSION_KEY, TestGateway, chat, user};

const BEGIN: &str = "[Recalled from earlier conversations]";
const QUESTION: &str = "What is my dog called?";
const SECRET: &str = "honcho-secret-key";

/// A gateway that uses a Honcho server.
pub(crate) struct Memory {
    pub(crate) gateway: TestGateway,
    pub(crate) honcho: FakeHoncho,
}

impl Memory {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    async fn with(more: &[(&str, &str)]) -> Self {
        let honcho = FakeHoncho::start().await;
        let url = honcho.base_url();
        let mut settings = vec![
            ("HERMA_MEMORY__PROVIDER", "honcho"),
            ("HERMA_MEMORY__BASE_URL", &url),
            ("HERMA_MEMORY__API_KEY", SECRET),
        ];
        settings.extend_from_slice(more);
        let gateway = TestGateway::with_settings(&settings).await;
        gateway.upstream.otherwise(|_| Reply::text("I see."));
        Self { gateway, honcho }
    }

    fn client(&self, key: &str, session: &str) -> Client {
        self.gateway.client().header(SESSION_KEY, key).header(SESSION_ID, session)
    }

    /// Says something, and returns what the model server got as the newest user message.
    pub(crate) async fn say(&self, key: &str, session: &str, text: &str) -> String {
        self.ask(&self.client(key, session), text).await
    }

    async fn ask(&self, client: &Client, text: &str) -> String {
        client.post_json(CHAT, &chat(&[user(text)])).await.expect(200);
        self.gateway.upstream.last_request().last_user_text()
    }

    /// What memory did for a run.
    async fn status_of_run(&self, key: &str, input: &str) -> Value {
        let client = self.gateway.client().header(SESSION_KEY, key);
        let run = client.post_json("/v1/runs", &json!({ "input": input })).await.expect(202);
        let path = format!("/v1/runs/{}", run["run_id"].as_str().or(run["id"].as_str()).expect("an id"));
        self.until(&path, |run| run["status"] == "completed").await["memory"]["status"].clone()
    }

    /// Asks until an answer is as wanted.
    pub(crate) async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let now = self.gateway.client().get(path).await.expect(200);
            if holds(&now) {
                return now;
            }
            assert!(began.elapsed() < PATIENCE, "{now}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn until_nothing_waits(&self) -> Value {
        let nothing =
            |health: &Value| health["memory"]["waiting_turns"] == 0 && health["memory"]["waiting_erasures"] == 0;
        self.until("/health/detailed", nothing).await
    }

    async fn until_erased(&self, receipt: &Value) {
        let path = format!("/api/erasures/{}", receipt["id"].as_str().expect("an id"));
        self.until(&path, |receipt| receipt["pending"] == 0).await;
    }
}

fn contents(messages: &[HonchoMessage]) -> Vec<&str> {
    messages.iter().map(|message| message.content.as_str()).collect()
}

#[tokio::test]
async fn what_was_said_is_told_to_honcho_and_recalled_in_the_next_conversation() {
    let memory = Memory::start().await;
    let answer = memory.client("agent:ann", "first").post_json(CHAT, &chat(&[user("My dog is called Bello.")])).await;
    let conversation = answer.expect(200)["session"]["conversation_id"].clone();
    let told = memory.honcho.until_messages(2).await;
    assert_eq!(contents(&told), ["My dog is called Bello.", "I see."]);
    assert_eq!((told[0].peer.as_str(), told[1].peer.as_str()), ("k-agent_3aann", "assistant"));
    assert_eq!(json!(told[0].session), conversation);
    assert_eq!(told[0].metadata["herma"]["conversation"], conversation);
    memory.honcho.conclude("Bello", "Ann has a dog");
    let shown = memory.say("agent:ann", "second", QUESTION).await;
    assert!(shown.starts_with(BEGIN) && shown.ends_with(QUESTION), "{shown}");
    assert!(shown.contains("Facts:\n- 2026-11-18: Ann has a dog\n"), "{shown}");
    assert!(shown.contains(", the user: My dog is called Bello.\n"), "{shown}");
    let again = memory.say("agent:ann", "first", QUESTION).await;
    assert!(!again.contains("the user: My dog is called Bello."), "the conversation shows it itself: {again}");
    assert_eq!(memory.status_of_run("agent:ann", "And my dog?").await, "recalled");
    assert_eq!(memory.status_of_run("agent:eve", "Who am I?").await, "nothing");
    let keys: Vec<_> = memory.honcho.requests().into_iter().map(|request| request.authorization).collect();
    assert!(keys.iter().all(|key| key.as_deref() == Some("Bearer honcho-secret-key")), "{keys:?}");
}

#[tokio::test]
async fn nothing_crosses_keys_or_tenants_even_if_honcho_is_indiscreet() {
    let memory = Memory::start().await;
    let store = SqliteStore::open(&memory.gateway.herma.data().join("herma.db")).unwrap();
    let stranger = create_key(&store, KeyGrant::of("elsewhere")).await.unwrap().secret;
    store.close().await;
    memory.say("a:b", "first", "My dog is called Bello.").await;
    memory.honcho.until_messages(2).await;
    memory.honcho.conclude("Bello", "There is a dog");
    for mood in [Mood::Right, Mood::Indiscreet] {
        memory.honcho.be(mood.clone());
        for key in ["a-b", "A:b", "a_3ab", "a:b:"] {
            let shown = memory.say(key, &format!("{mood:?}-{key}").replace(':', "."), QUESTION).await;
            assert_eq!(shown, QUESTION, "{mood:?} {key}");
        }
        let elsewhere = Client::new(memory.gateway.herma.base_url()).key(&stranger).header(SESSION_KEY, "a:b");
        let shown = memory.ask(&elsewhere, "Is my dog a big one?").await;
        assert!(!shown.contains("My dog is called Bello.") && !shown.contains("There is a dog"), "{mood:?} {shown}");
    }
    memory.honcho.be(Mood::Right);
    assert!(memory.say("a:b", "second", QUESTION).await.contains("Bello"));
}

#[tokio::test]
async fn what_is_marked_off_and_what_helpers_say_is_not_told() {
    let memory = Memory::start().await;
    let off = memory.client("ann", "secret").header("x-hermes-memory", "off");
    memory.ask(&off, "My diagnosis is secret.").await;
    let helper = memory.gateway.client().header(SESSION_KEY, "ann").header("x-hermes-session-kind", "auxiliary");
    memory.ask(&helper, "Make a title, helper.").await;
    memory.ask(&memory.gateway.in_session("keyless"), "Nobody says this.").await;
    memory.ask(&helper.header("x-hermes-memory", "on"), "Note this, helper.").await;
    memory.say("ann", "open", "My dog is called Bello.").await;
    let told = memory.honcho.until_messages(4).await;
    memory.until_nothing_waits().await;
    assert_eq!(contents(&told), ["Note this, helper.", "I see.", "My dog is called Bello.", "I see."]);
    assert_eq!(memory.honcho.messages().len(), 4);
}

#[tokio::test]
async fn a_turn_goes_on_without_a_honcho_that_is_down_slow_or_wrong_and_the_outbox_catches_up() {
    let memory = Memory::start().await;
    let fact = json!({ "session_key": "ann", "text": "Ann is allergic to nuts" });
    memory.gateway.client().post_json("/api/memories", &fact).await.expect(201);
    let moods = [
        (Mood::Status(500), "failed"),
        (Mood::Status(422), "failed"),
        (Mood::RateLimited(1), "failed"),
        (Mood::CutOff, "failed"),
        (Mood::Garbage, "failed"),
        (Mood::WrongJson, "failed"),
        (Mood::Huge, "failed"),
        (Mood::Hanging, "late"),
    ];
    for (mood, status) in moods {
        memory.honcho.be(mood.clone());
        let off = memory.gateway.client().header(SESSION_KEY, "ann");
        let asked = json!({ "input": "What about nuts?", "kind": "background" });
        let run = off.post_json("/v1/runs", &asked).await.expect(202);
        let path = format!("/v1/runs/{}", run["run_id"].as_str().or(run["id"].as_str()).expect("an id"));
        let run = memory.until(&path, |run| run["status"] == "completed").await;
        assert_eq!(run["memory"]["status"], status, "{mood:?}");
        let shown = memory.gateway.upstream.last_request().last_user_text();
        assert!(shown.contains("Ann is allergic to nuts"), "Herma's own facts are there: {mood:?} {shown}");
    }
    memory.honcho.be(Mood::Status(503));
    let began = Instant::now();
    memory.say("ann", "first", "My dog is called Bello.").await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let failed = |health: &Value| health["memory"]["error"]["message"].is_string();
    let health = memory.until("/health/detailed", failed).await;
    assert_eq!(health["memory"]["error"]["message"], "Honcho answered with status 503");
    assert_eq!(health["memory"]["waiting_turns"], 1);
    let metrics = memory.gateway.client().get("/metrics").await.text();
    assert!(metrics.contains("herma_memory_waiting{task=\"record\"} 1"), "{metrics}");
    memory.honcho.be(Mood::Right);
    assert_eq!(contents(&memory.honcho.until_messages(2).await), ["My dog is called Bello.", "I see."]);
    let health = memory.until_nothing_waits().await;
    assert!(health["memory"].get("error").is_none(), "{health}");
    let log = memory.gateway.herma.stderr();
    assert!(!log.contains("Bello") && !log.contains("nuts") && !log.contains(SECRET), "{log}");
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_told_later_in_order() {
    let Memory { gateway, honcho } = Memory::start().await;
    let stopped = honcho.stop().await;
    let client = gateway.client().header(SESSION_KEY, "ann").header(SESSION_ID, "trip");
    for text in ["one", "two", "three"] {
        client.post_json(CHAT, &chat(&[user(text)])).await.expect(200);
    }
    let honcho = stopped.start().await;
    let told = honcho.until_messages(6).await;
    assert_eq!(contents(&told), ["one", "I see.", "two", "I see.", "three", "I see."]);
}

#[tokio::test]
async fn a_delivery_whose_answer_is_lost_is_not_told_twice() {
    let memory = Memory::start().await;
    memory.honcho.be(Mood::LosesAnswers);
    memory.say("ann", "first", "My dog is called Bello.").await;
    memory.honcho.until_messages(2).await;
    memory.say("ann", "first", "And my cat Minka.").await;
    let failed = |health: &Value| health["memory"]["error"]["message"].is_string();
    memory.until("/health/detailed", failed).await;
    memory.honcho.be(Mood::Right);
    memory.until_nothing_waits().await;
    let told = memory.honcho.messages();
    assert_eq!(contents(&told), ["My dog is called Bello.", "I see.", "And my cat Minka.", "I see."]);
}

#[tokio::test]
async fn a_refused_turn_is_given_up_and_the_next_ones_are_told() {
    let memory = Memory::start().await;
    memory.honcho.be(Mood::Status(422));
    memory.say("ann", "first", "one").await;
    memory.until("/health/detailed", |health| health["memory"]["dropped_turns"] == 1).await;
    memory.honcho.be(Mood::Right);
    memory.say("ann", "first", "two").await;
    assert_eq!(contents(&memory.honcho.until_messages(2).await), ["two", "I see."]);
}

#[tokio::test]
async fn a_long_message_is_told_in_parts() {
    let memory = Memory::start().await;
    let long = "word ".repeat(9_000);
    memory.say("ann", "first", &long).await;
    let told = memory.honcho.until_messages(4).await;
    assert_eq!(told[..3].iter().map(|part| part.content.as_str()).collect::<String>(), long);
}

#[tokio::test]
async fn after_kill_9_a_turn_that_waits_is_told_once() {
    let mut memory = Memory::start().await;
    memory.honcho.be(Mood::Hanging);
    memory.say("ann", "first", "My dog is called Bello.").await;
    memory.gateway.herma.kill();
    memory.honcho.be(Mood::Right);
    assert_eq!(memory.honcho.messages(), []);
    memory.gateway.restart().await;
    memory.honcho.until_messages(2).await;
    memory.until_nothing_waits().await;
    assert_eq!(contents(&memory.honcho.messages()), ["My dog is called Bello.", "I see."]);
}

#[tokio::test]
async fn two_processes_on_one_store_tell_each_turn_once_and_in_order() {
    let memory = Memory::start().await;
    let url = memory.honcho.base_url();
    let second = herma_testkit::Launch::serve(env!("CARGO_BIN_EXE_herma"))
        .data(memory.gateway.herma.data())
        .upstream(&memory.gateway.upstream.base_url())
        .env("HERMA_MEMORY__PROVIDER", "honcho")
        .env("HERMA_MEMORY__BASE_URL", &url)
        .start()
        .await;
    let clients = [memory.gateway.client(), second.client()];
    for nth in 0..20 {
        let client = clients[nth % 2].clone().header(SESSION_KEY, "ann").header(SESSION_ID, "trip");
        client.post_json(CHAT, &chat(&[user(&format!("number {nth:02}"))])).await.expect(200);
    }
    memory.honcho.until_messages(40).await;
    memory.until_nothing_waits().await;
    let told = memory.honcho.messages();
    let said: Vec<_> = told.iter().filter(|one| one.peer != "assistant").map(|one| one.content.clone()).collect();
    assert_eq!(said, (0..20).map(|nth| format!("number {nth:02}")).collect::<Vec<_>>());
    assert_eq!(told.len(), 40);
}

#[tokio::test]
async fn an_erased_conversation_is_forgotten_by_honcho_and_never_recalled_meanwhile() {
    let memory = Memory::start().await;
    memory.honcho.delete_later(true);
    memory.honcho.conclude("Bello", "Ann has a dog called Bello");
    memory.say("ann", "first", "My dog is called Bello.").await;
    memory.say("ann", "other", "My cat is called Minka.").await;
    memory.honcho.until_messages(4).await;
    assert!(memory.say("ann", "third", QUESTION).await.contains("Bello"));
    memory.until_nothing_waits().await;
    let receipt = memory.gateway.client().delete("/api/sessions/first").await.expect(200);
    assert!(receipt["pending"].as_u64() > Some(1), "{receipt}");
    let view = memory.gateway.model_view("third").await;
    assert!(!view[0].contains("Bello"), "blocks that quote it are gone: {view:?}");
    for nth in 0..3 {
        let shown = memory.say("ann", &format!("next-{nth}"), "What are my dog and cat called?").await;
        assert!(!shown.contains("Bello") && shown.contains("Minka"), "{shown}");
    }
    assert!(memory.honcho.messages().iter().any(|one| one.content.contains("Bello")), "Honcho has not deleted it yet");
    let path = format!("/api/erasures/{}", receipt["id"].as_str().unwrap());
    assert_ne!(memory.gateway.client().get(&path).await.expect(200)["pending"], 0);
    memory.honcho.carry_out_deletions();
    memory.until_erased(&receipt).await;
    assert!(memory.honcho.messages().iter().all(|one| !one.content.contains("Bello")));
    assert!(memory.honcho.messages().iter().any(|one| one.content.contains("Minka")));
}

#[tokio::test]
async fn what_is_erased_before_it_was_told_is_never_told() {
    let memory = Memory::start().await;
    memory.honcho.be(Mood::Status(503));
    memory.say("ann", "first", "My dog is called Bello.").await;
    memory.say("bob", "second", "My cat is called Minka.").await;
    let one = memory.gateway.client().delete("/api/sessions/first").await.expect(200);
    let two = memory.gateway.client().delete("/api/session-keys/bob").await.expect(200);
    memory.honcho.be(Mood::Right);
    memory.until_erased(&one).await;
    memory.until_erased(&two).await;
    assert_eq!(memory.honcho.messages(), []);
    let sent = memory.honcho.requests().iter().filter(|request| request.path.ends_with("/messages")).count();
    assert_eq!(sent, 0);
}

#[tokio::test]
async fn an_erased_key_is_forgotten_by_honcho_and_its_name_leaves_the_files() {
    let memory = Memory::start().await;
    for session in ["one", "two"] {
        memory.say("keykestrel", session, "My dog is called Bello.").await;
    }
    memory.say("bob", "three", "My cat is called Minka.").await;
    memory.honcho.until_messages(6).await;
    memory.until_nothing_waits().await;
    let receipt = memory.gateway.client().delete("/api/session-keys/keykestrel").await.expect(200);
    memory.until_erased(&receipt).await;
    assert_eq!(contents(&memory.honcho.messages()), ["My cat is called Minka.", "I see."]);
    let left = found(memory.gateway.herma.data(), &["keykestrel", "Bello"]);
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(memory.say("keykestrel", "four", QUESTION).await, QUESTION);
    memory.gateway.client().delete("/api/session-keys/nobody").await.expect(404);
}

/// Conclusions about the peer of a message, with ids that begin with `name`.
fn concluded(told: &HonchoMessage, session: Option<&str>, name: &str, count: usize) -> Vec<HonchoConclusion> {
    let conclusion = |nth| HonchoConclusion {
        workspace: told.workspace.clone(),
        id: format!("{name}-{nth}"),
        observed: told.peer.clone(),
        session: session.map(str::to_owned),
    };
    (0..count).map(conclusion).collect()
}

#[tokio::test]
async fn conclusions_that_may_come_from_an_erased_conversation_are_deleted_one_by_one_past_the_first_pages() {
    let memory = Memory::start().await;
    memory.say("ann", "first", "My dog is called Bello.").await;
    memory.say("ann", "other", "My cat is called Minka.").await;
    memory.say("bob", "third", "My bird is called Piet.").await;
    let told = memory.honcho.until_messages(6).await;
    memory.until_nothing_waits().await;
    let of = |word: &str| told.iter().find(|one| one.content.contains(word)).expect("a message");
    let (ann, other, bob) = (of("Bello"), of("Minka"), of("Piet"));
    // The newest come first, so those to be deleted are on the last pages.
    memory.honcho.note(concluded(ann, None, "derived", 450));
    memory.honcho.note(concluded(ann, Some(&ann.session), "first", 3));
    memory.honcho.note(concluded(ann, Some(&other.session), "other", 510));
    memory.honcho.note(concluded(bob, None, "bob", 1));
    let receipt = memory.gateway.client().delete("/api/sessions/first").await.expect(200);
    memory.until_erased(&receipt).await;
    let left = memory.honcho.noted();
    assert!(left.iter().all(|one| one.id.starts_with("other-") || one.id == "bob-0"), "{:?}", left.first());
    assert_eq!(left.len(), 511);
    let receipt = memory.gateway.client().delete("/api/session-keys/ann").await.expect(200);
    memory.until_erased(&receipt).await;
    assert_eq!(memory.honcho.noted().iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["bob-0"]);
}

#[tokio::test]
async fn an_erased_key_is_done_when_honchos_worker_has_deleted_all_of_its_sessions() {
    let memory = Memory::start().await;
    memory.say("ann", "first", "My dog is called Bello.").await;
    let told = memory.honcho.until_messages(2).await.swap_remove(0);
    memory.until_nothing_waits().await;
    let sessions = format!("/v3/workspaces/{}/sessions", told.workspace);
    let honcho = Client::new(memory.honcho.base_url());
    for nth in 0..230 {
        let session = json!({ "id": format!("older-{nth}"), "peers": { &told.peer: {} } });
        honcho.post_json(&sessions, &session).await.expect(201);
    }
    memory.honcho.delete_later(true);
    let receipt = memory.gateway.client().delete("/api/session-keys/ann").await.expect(200);
    let accepted = |health: &Value| health["memory"]["error"]["message"].is_string();
    let health = memory.until("/health/detailed", accepted).await;
    let said = health["memory"]["error"]["message"].as_str().expect("text");
    assert_eq!(said, "Honcho has accepted a deletion, but its worker has not carried it out yet");
    let path = format!("/api/erasures/{}", receipt["id"].as_str().expect("an id"));
    assert_ne!(memory.gateway.client().get(&path).await.expect(200)["pending"], 0);
    memory.honcho.delete_later(false);
    memory.until_erased(&receipt).await;
    let deleted = memory.honcho.requests().iter().filter(|one| one.method == "DELETE").count();
    assert_eq!(deleted, 231, "each session once");
    let left = honcho.post_json(&format!("{sessions}/list"), &json!({})).await.expect(200);
    assert_eq!(left["total"], 0, "{left}");
}

#[tokio::test]
async fn an_erased_tenant_is_forgotten_with_its_workspace() {
    let memory = Memory::start().await;
    memory.say("ann", "one", "My dog is called Bello.").await;
    memory.honcho.until_messages(2).await;
    memory.until_nothing_waits().await;
    let erased = tokio::process::Command::new(env!("CARGO_BIN_EXE_herma"))
        .args(["tenants", "delete", "default", "--yes", "--data"])
        .arg(memory.gateway.herma.data())
        .output()
        .await
        .expect("a command");
    assert!(erased.status.success(), "{}", String::from_utf8_lossy(&erased.stderr));
    let began = Instant::now();
    let is_deleted = || {
        let requests = memory.honcho.requests();
        requests.iter().any(|one| one.method == "DELETE" && one.path.split('/').count() == 4)
    };
    while !is_deleted() {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(memory.honcho.messages(), []);
}

#[tokio::test]
async fn hermes_names_are_used_and_a_conversation_stays_pending_until_its_key_is_erased() {
    let memory = Memory::with(&[("HERMA_MEMORY__HERMES_NAMES", "true")]).await;
    memory.say("agent:main:dm", "first", "My dog is called Bello.").await;
    let told = memory.honcho.until_messages(2).await;
    let names = (told[0].workspace.as_str(), told[0].session.as_str(), told[0].peer.as_str(), told[1].peer.as_str());
    assert_eq!(names, ("hermes", "agent-main-dm", "user-default-agent-main-dm", "hermes"));
    assert!(memory.say("agent:main:dm", "second", QUESTION).await.contains("Bello"));
    let receipt = memory.gateway.client().delete("/api/sessions/first").await.expect(200);
    memory.until("/health/detailed", |health| health["memory"]["waiting_turns"] == 0).await;
    assert!(!memory.say("agent:main:dm", "third", QUESTION).await.contains("Bello"), "it is never recalled");
    let path = format!("/api/erasures/{}", receipt["id"].as_str().unwrap());
    assert_ne!(memory.gateway.client().get(&path).await.expect(200)["pending"], 0);
    memory.gateway.client().delete("/api/session-keys/agent:main:dm").await.expect(200);
    memory.until_erased(&receipt).await;
    assert_eq!(memory.honcho.messages(), []);
}

#[tokio::test]
async fn the_doctor_says_whether_honcho_answers() {
    let honcho = FakeHoncho::start().await;
    let data = TempDir::new().expect("a directory");
    let check = || async {
        let command = tokio::process::Command::new(env!("CARGO_BIN_EXE_herma"))
            .args(["doctor", "--json", "--data"])
            .arg(data.path())
            .env("HERMA_MEMORY__PROVIDER", "honcho")
            .env("HERMA_MEMORY__BASE_URL", honcho.base_url())
            .env("HERMA_MEMORY__API_KEY", SECRET)
            .output()
            .await;
        let printed = String::from_utf8(command.expect("a command").stdout).expect("text");
        assert!(!printed.contains(SECRET), "{printed}");
        let checks: Value = serde_json::from_str(&printed).expect("JSON");
        let memory =
            checks["checks"].as_array().expect("checks").iter().find(|check| check["check"] == "memory").cloned();
        let memory = memory.unwrap_or_else(|| panic!("{printed}"));
        (memory["status"].as_str().unwrap_or_default().to_owned(), memory["found"].to_string())
    };
    let (status, found) = check().await;
    assert!(status == "ok" && found.contains("answers"), "{found}");
    honcho.be(Mood::Status(401));
    let (status, found) = check().await;
    assert!(status == "problem" && found.contains("does not accept the key"), "{found}");
    honcho.be(Mood::Garbage);
    let (status, found) = check().await;
    assert!(status == "problem" && found.contains("not what its API says"), "{found}");
}

use std::path::Path;
use std::process::Stdio;

use herma_gateway::access;
use herma_model::Alias;
use herma_model::limits::MAX_PAGE;
use herma_store::{ListFilter, MessageRange, Order, Pin, Scope, Store};
use herma_store_sqlite::SqliteStore;
use herma_testkit::HermesDatabase;
use herma_testkit::hermes::response_store;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::{CommandOutput, Terminal};

impl Terminal {
    fn import(&self, state: &Path) -> CommandOutput {
        self.run(&["import", "hermes", state.to_str().unwrap()])
    }

    fn import_json(&self, state: &Path) -> Value {
        let said = self.run(&["import", "hermes", state.to_str().unwrap(), "--json"]);
        serde_json::from_str(said.answer()).unwrap()
    }

    /// All conversations of a tenant.
    fn rows(&self, tenant: &str) -> Vec<Value> {
        let said = self.run(&["sessions", "list", "--all", "--json", "--tenant", tenant]);
        said.answer().lines().map(|row| serde_json::from_str(row).unwrap()).collect()
    }

    /// Messages of all conversations.
    fn messages(&self) -> u64 {
        self.rows("default").iter().map(|row| row["message_count"].as_u64().unwrap()).sum()
    }

    /// The very session of an id, as a row.
    fn session(&self, id: &str) -> Value {
        serde_json::from_str(self.run(&["sessions", "show", id, "--exact", "--json"]).answer()).unwrap()
    }

    /// The mode and the last message of the only compaction of a conversation.
    fn compaction(&self, id: &str) -> (String, i64) {
        let said = self.run(&["sessions", "compactions", id, "--json"]);
        let ledger: Vec<Value> = serde_json::from_str(said.answer()).unwrap();
        let only = &ledger[0];
        assert_eq!(ledger.len(), 1, "{ledger:?}");
        (only["mode"].as_str().unwrap().to_owned(), only["range"]["last_seq"].as_i64().unwrap())
    }
}

fn problems(report: &Value) -> Vec<String> {
    report["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| problem["problem"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_kind_of_session_is_what_it_was() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    hermes.session("person", 1.0, &[("title", "A trip"), ("source", "telegram")]);
    hermes.turn("person", "hello", "hi");
    hermes.session(
        "helper",
        2.0,
        &[("parent_session_id", "person"), ("model_config", r#"{"_delegate_from":"person"}"#)],
    );
    hermes.turn("helper", "look", "found");
    hermes.session(
        "branch",
        3.0,
        &[("parent_session_id", "person"), ("model_config", r#"{"_branched_from":"person"}"#)],
    );
    hermes.turn("branch", "hello", "hi");
    hermes.session("job", 4.0, &[("source", "cron")]);
    hermes.turn("job", "report", "done");
    hermes.session("legacy", 5.0, &[("parent_session_id", "person")]);
    hermes.session("first", 6.0, &[("source", "cron")]);
    hermes.turn("first", "one", "1");
    hermes.end("first", "compression", 7.0);
    hermes.session("second", 7.0, &[("parent_session_id", "first")]);
    hermes.summary("second", "they counted");
    hermes.turn("second", "two", "2");
    hermes.session("lost", 8.0, &[]);
    hermes.end("lost", "compression", 9.0);
    hermes.session("closed", 9.0, &[]);
    hermes.end("closed", "cli_close", 10.0);

    let said = terminal.import(hermes.path());
    assert_eq!(
        said.answer(),
        "9 sessions are 8 conversations: 8 new, 0 went on, 0 brought anew, 0 as before, 0 left alone; 12 messages brought"
    );
    assert!(
        said.stderr.contains("session lost: it was compressed into a session that is not there"),
        "{}",
        said.stderr
    );
    for (id, kind, parent, relation, origin, depth) in [
        ("person", "main", None, None, "main", 0),
        ("helper", "auxiliary", Some("person"), Some("delegate"), "auxiliary", 0),
        ("branch", "branch", Some("person"), Some("branch"), "branch", 0),
        ("job", "background", None, None, "background", 0),
        ("legacy", "main", Some("person"), Some("import"), "main", 0),
        ("first", "background", None, None, "background", 0),
        ("second", "continuation", Some("first"), Some("continuation"), "background", 1),
        ("lost", "main", None, None, "main", 0),
        ("closed", "main", None, None, "main", 0),
    ] {
        let row = terminal.session(id);
        let provenance = &row["provenance"];
        let text = |name: &str| provenance[name].as_str();
        assert_eq!(
            (text("kind"), text("origin_kind"), text("creator_kind")),
            (Some(kind), Some(origin), Some("import"))
        );
        assert_eq!((text("parent_session_id"), text("parent_relation")), (parent, relation), "{id}");
        assert_eq!(provenance["compression_depth"], depth, "{id}");
        assert_eq!(row["end_reason"].as_str(), (id == "first").then_some("compression"), "{id}");
    }
    assert!(terminal.rows("default").iter().all(|row| row["ended_at"].is_null()), "all can go on");
}

#[test]
fn an_early_hermes_is_read_too() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::old(terminal.home.path());
    hermes.session("a", 1.0, &[]);
    hermes.turn("a", "hello", "hi");
    hermes.end("a", "compression", 2.0);
    hermes.session("b", 2.0, &[("parent_session_id", "a")]);
    hermes.message("b", "user", Some("[CONTEXT SUMMARY]: they met"), &[]);
    hermes.turn("b", "more", "yes");
    let report = terminal.import_json(hermes.path());
    assert_eq!((&report["schema"], &report["conversations"]["made"]), (&json!(4), &json!(1)));
    assert_eq!((&report["messages"], &report["problems"]), (&json!(4), &json!([])));
    assert_eq!(terminal.compaction("a"), ("split".to_owned(), 2));
    hermes.execute("DROP TABLE schema_version; ALTER TABLE messages ADD COLUMN unheard_of TEXT");
    let report = terminal.import_json(hermes.path());
    assert_eq!((&report["schema"], &report["conversations"]["unchanged"]), (&Value::Null, &json!(1)));
}

#[test]
fn what_is_new_comes_with_the_next_import_and_nothing_twice() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    hermes.session("a", 1.0, &[]);
    hermes.turn("a", "hello", "hi");
    hermes.session("b", 2.0, &[]);
    hermes.turn("b", "hello", "hi");
    assert_eq!(terminal.import_json(hermes.path())["conversations"]["made"], 2);
    let before = terminal.messages();
    let again = terminal.import_json(hermes.path());
    assert_eq!((&again["conversations"]["unchanged"], &again["messages"]), (&json!(2), &json!(0)));
    assert_eq!(terminal.messages(), before);

    terminal.run_with_input(&["chat", "--session", "b"], "and here?\n").answer();
    hermes.turn("a", "more", "yes");
    hermes.archive("a");
    hermes.summary("a", "they met");
    hermes.turn("a", "more", "yes");
    hermes.turn("a", "last", "yes");
    hermes.turn("b", "there", "no");
    let third = terminal.import_json(hermes.path());
    assert_eq!((&third["conversations"]["extended"], &third["conversations"]["left"]), (&json!(1), &json!(1)));
    assert_eq!(third["messages"], 4, "copies are not messages");
    assert!(problems(&third)[0].contains("gone on in Herma"), "{third}");
    assert_eq!(terminal.compaction("a"), ("in_place".to_owned(), 2));
}

#[test]
fn rows_that_cannot_be_imported_are_reported_with_their_number() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    hermes.session("a", 1.0, &[]);
    hermes.turn("a", "hello", "hi");
    let broken = hermes.message("a", "assistant", None, &[("tool_calls", "[{")]);
    let orphan = hermes.message("a", "tool", Some("found"), &[("tool_call_id", "c1")]);
    let system = hermes.message("a", "system", Some("be kind"), &[]);
    hermes.execute("INSERT INTO messages (session_id, role, content, timestamp) VALUES ('a', 'user', x'ff00', 1.0)");
    hermes.message("a", "user", Some("rewound"), &[("active", "0")]);
    hermes.session("sl/ash", 2.0, &[]);
    hermes.turn("sl/ash", "hello", "hi");
    let report = terminal.import_json(hermes.path());
    let rows: Vec<i64> = report["problems"].as_array().unwrap().iter().filter_map(|it| it["row"].as_i64()).collect();
    // A tool result is checked after all calls, so its problem comes last.
    assert_eq!(rows, [broken, system, system + 1, orphan]);
    assert_eq!((&report["taken_back"], &report["messages"]), (&json!(1), &json!(4)));
    assert!(problems(&report).last().unwrap().contains("cannot be an id"), "{report}");
    assert_eq!(terminal.import_json(hermes.path())["conversations"]["unchanged"], 2);
}

#[test]
fn an_id_that_is_used_in_herma_is_not_taken_over() {
    let terminal = Terminal::new();
    terminal.run_with_input(&["chat", "--session", "trip"], "mine\n").answer();
    let hermes = HermesDatabase::new(terminal.home.path());
    hermes.session("trip", 1.0, &[]);
    hermes.turn("trip", "theirs", "yes");
    let report = terminal.import_json(hermes.path());
    assert_eq!(report["conversations"]["left"], 1);
    assert!(problems(&report)[0].contains("trip leads to a conversation that was not imported from this file"));
    assert_eq!(terminal.rows("default").len(), 1);
}

#[test]
fn names_of_responses_lead_to_their_conversations() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    hermes.session("a", 1.0, &[]);
    hermes.turn("a", "hello", "hi");
    let id = "resp_0123456789abcdef0123456789ab";
    response_store(terminal.home.path(), &[("my-trip", id), ("evicted", "resp_gone")], &[(id, "a")]);
    let report = terminal.import_json(hermes.path());
    assert_eq!(problems(&report), ["the name evicted leads to no session in Hermes"]);
    for name in ["my-trip", id, "a"] {
        let said = terminal.run(&["sessions", "compactions", name, "--json"]);
        assert_eq!(said.answer(), "[]", "{name}");
    }
    let missing = terminal.run(&["import", "hermes", hermes.path().to_str().unwrap(), "--responses", "nowhere.db"]);
    assert_eq!(missing.code, 1);
    assert!(missing.stderr.contains("there is no file nowhere.db"), "{}", missing.stderr);
    std::fs::write(terminal.home.path().join("response_store.db"), "no database, though it is called one").unwrap();
    let report = terminal.import_json(hermes.path());
    assert!(problems(&report)[0].contains("response_store.db is not an SQLite database"), "{report}");
    assert_eq!(report["conversations"]["unchanged"], 1, "the rest does not suffer");
}

#[test]
fn a_huge_session_comes_whole() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    hermes.session("huge", 1.0, &[]);
    hermes.turns("huge", 6_000);
    assert_eq!(terminal.import_json(hermes.path())["messages"], 12_000);
    let row = terminal.session("huge");
    assert_eq!((&row["turn_count"], &row["message_count"]), (&json!(6_000), &json!(12_000)));
    let last = terminal.run(&["sessions", "show", "huge", "--messages", "1"]);
    assert!(last.answer().lines().last().unwrap().starts_with("12000 model: "), "{}", last.stdout);
    hermes.turn("huge", "one more", "yes");
    assert_eq!(terminal.import_json(hermes.path())["messages"], 2);
}

#[test]
fn what_was_taken_back_in_hermes_is_taken_back_here() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    hermes.session("a", 1.0, &[]);
    hermes.turn("a", "hello", "hi");
    hermes.turn("a", "wrong", "no");
    terminal.import_json(hermes.path());
    hermes.execute("UPDATE messages SET active = 0 WHERE content IN ('wrong', 'no')");
    hermes.turn("a", "right", "yes");
    let report = terminal.import_json(hermes.path());
    assert_eq!((&report["conversations"]["replaced"], &report["taken_back"]), (&json!(1), &json!(2)));
    assert_eq!(terminal.messages(), 4);
    let whole = terminal.run(&["sessions", "export", "a", "--format", "jsonl"]);
    assert!(whole.answer().contains("right") && !whole.stdout.contains("wrong"), "{}", whole.stdout);
}

#[test]
fn files_that_cannot_be_read_leave_nothing_behind() {
    let terminal = Terminal::new();
    let home = terminal.home.path();
    std::fs::write(home.join("text.db"), "this is not a database, whatever its name says, and it is long enough")
        .unwrap();
    std::fs::write(home.join("empty.db"), "").unwrap();
    let other = Connection::open(home.join("other.db")).unwrap();
    other
        .execute_batch("CREATE TABLE sessions (id TEXT, started_at REAL); CREATE TABLE messages (id INTEGER)")
        .unwrap();
    drop(other);
    let newer = HermesDatabase::new(home);
    newer.execute("UPDATE schema_version SET version = 23");
    for (file, why) in [
        ("nowhere.db", "there is no file nowhere.db"),
        ("text.db", "text.db is not an SQLite database"),
        ("empty.db", "empty.db is not a Hermes database: it has no table sessions"),
        ("other.db", "other.db is not a Hermes database: it has no column messages.session_id"),
        ("state.db", "state.db was written by a newer Hermes (schema 23; up to 22 is known)"),
    ] {
        let said = terminal.run(&["import", "hermes", file]);
        assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{file}");
        assert_eq!(said.stderr.trim_end(), format!("error: nothing was imported: {why}"));
    }
    assert!(!terminal.data().exists(), "no store is made for nothing");
}

#[test]
fn a_damaged_file_is_refused_as_a_whole() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    hermes.session("a", 1.0, &[]);
    hermes.turns("a", 500);
    hermes.execute("PRAGMA wal_checkpoint(TRUNCATE)");
    let path = hermes.path().to_owned();
    drop(hermes);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 3 * 4096].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let said = terminal.import(&path);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("is damaged"), "{}", said.stderr);
    assert!(!terminal.data().exists());
}

#[test]
fn a_database_that_is_being_written_is_read() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    hermes.session("a", 1.0, &[]);
    hermes.turn("a", "hello", "hi");
    hermes.execute("BEGIN IMMEDIATE");
    hermes.turn("a", "not yet", "no");
    assert_eq!(terminal.import_json(hermes.path())["messages"], 2);
    hermes.execute("COMMIT");
    assert_eq!(terminal.import_json(hermes.path())["messages"], 2);
}

/// Reads the store as another process does, while an import writes it.
struct Reader {
    store: SqliteStore,
    scope: Scope,
}

impl Reader {
    async fn open(store: &Path) -> Self {
        let store = SqliteStore::open(store).unwrap();
        let scope = Scope::of(&access::default_principal(&store).await.unwrap());
        Self { store, scope }
    }

    /// How many conversations there are. Checks that each has all its 200 messages.
    async fn whole_conversations(&self) -> usize {
        let filter = ListFilter { limit: MAX_PAGE, ..ListFilter::default() };
        let rows = self.store.conversations(&self.scope, filter).await.unwrap().rows;
        for row in &rows {
            let alias = Alias::parse(row.session.id.as_str()).unwrap();
            let range = MessageRange { order: Order::NewestFirst { before: None }, limit: MAX_PAGE, pin: Pin::Head };
            let page = self.store.messages(&self.scope, &alias, range).await.unwrap().unwrap();
            assert_eq!((row.message_count, page.entries.len(), page.has_more), (200, 200, false), "{alias}");
        }
        rows.len()
    }
}

#[tokio::test]
async fn a_killed_import_can_be_continued() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    for session in 0..40 {
        let id = format!("s{session}");
        hermes.session(&id, f64::from(session), &[]);
        hermes.turns(&id, 100);
    }
    let state = hermes.path().to_str().unwrap();
    let mut child = terminal.command(&["import", "hermes", state]).stderr(Stdio::null()).spawn().unwrap();
    let store = terminal.data().join("herma.db");
    let mut is_over = || child.try_wait().unwrap().is_some();
    while !store.exists() {
        assert!(!is_over(), "it was over before it made a store");
        std::thread::yield_now();
    }
    let reader = Reader::open(&store).await;
    while reader.whole_conversations().await == 0 {
        assert!(!is_over(), "it was over before it could be killed");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let brought = reader.whole_conversations().await;
    let rest = terminal.import_json(hermes.path());
    assert_eq!(
        (&rest["conversations"]["unchanged"], &rest["conversations"]["made"]),
        (&json!(brought), &json!(40 - brought))
    );
    assert_eq!(reader.whole_conversations().await, 40);
}

#[test]
fn a_tenant_must_be_there() {
    let terminal = Terminal::new();
    let hermes = HermesDatabase::new(terminal.home.path());
    hermes.session("a", 1.0, &[]);
    let state = hermes.path().to_str().unwrap();
    let said = terminal.run(&["import", "hermes", state, "--tenant", "wbe"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("there is no tenant wbe"), "{}", said.stderr);
    terminal.run(&["keys", "create", "--tenant", "web"]).answer();
    terminal.run(&["import", "hermes", state, "--tenant", "web"]).answer();
    assert_eq!((terminal.rows("web").len(), terminal.rows("default").len()), (1, 0));
}

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

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

    fn stored(&self) -> Connection {
        Connection::open(self.data().join("herma.db")).unwrap()
    }

    /// One number from the store.
    fn value(&self, sql: &str) -> i64 {
        self.stored().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// Kind, parent, relation to the parent, origin and depth of a session.
    fn facts(&self, id: &str) -> (String, Option<String>, Option<String>, String, i64) {
        let select = "SELECT s.kind, s.parent_id, s.parent_relation, c.origin_kind, s.depth FROM sessions s
             JOIN conversations c ON c.pk = s.conversation_pk WHERE s.id = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
        self.stored().query_row(select, [id], read).unwrap()
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
    let name = |text: &str| Some(text.to_owned());
    for (id, kind, parent, relation, origin, depth) in [
        ("person", "main", None, None, "main", 0),
        ("helper", "auxiliary", name("person"), name("delegate"), "auxiliary", 0),
        ("branch", "branch", name("person"), name("branch"), "branch", 0),
        ("job", "background", None, None, "background", 0),
        ("legacy", "main", name("person"), name("import"), "main", 0),
        ("first", "background", None, None, "background", 0),
        ("second", "continuation", name("first"), name("continuation"), "background", 1),
        ("lost", "main", None, None, "main", 0),
        ("closed", "main", None, None, "main", 0),
    ] {
        assert_eq!(terminal.facts(id), (kind.to_owned(), parent, relation, origin.to_owned(), depth), "{id}");
    }
    assert_eq!(terminal.value("SELECT count(*) FROM sessions WHERE creator_kind <> 'import'"), 0);
    assert_eq!(terminal.value("SELECT count(*) FROM conversations WHERE ended_at IS NOT NULL"), 0, "all can go on");
    assert_eq!(terminal.value("SELECT count(*) FROM sessions WHERE end_reason = 'compression'"), 1);
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
    assert_eq!(terminal.value("SELECT count(*) FROM compactions WHERE mode = 'split' AND through_seq = 2"), 1);
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
    let before = terminal.value("SELECT count(*) FROM messages");
    let again = terminal.import_json(hermes.path());
    assert_eq!((&again["conversations"]["unchanged"], &again["messages"]), (&json!(2), &json!(0)));
    assert_eq!(terminal.value("SELECT count(*) FROM messages"), before);

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
    assert_eq!(terminal.value("SELECT count(*) FROM compactions WHERE mode = 'in_place' AND through_seq = 2"), 1);
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
    assert_eq!(terminal.value("SELECT count(*) FROM conversations"), 1);
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
    assert_eq!(terminal.value("SELECT count(*) FROM turns WHERE state = 'completed'"), 6_000);
    assert_eq!(terminal.value("SELECT max(seq) FROM messages"), 12_000);
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
    assert_eq!(terminal.value("SELECT count(*) FROM messages WHERE payload LIKE '%wrong%'"), 0);
    assert_eq!(terminal.value("SELECT count(*) FROM messages"), 4);
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

#[test]
fn a_killed_import_can_be_continued() {
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
    let some = |store: &Path| {
        let connection = Connection::open(store).ok()?;
        connection.busy_timeout(Duration::from_secs(1)).ok()?;
        connection
            .query_row("SELECT count(*) FROM imports", [], |row| row.get::<_, i64>(0))
            .ok()
            .filter(|count| *count > 0)
    };
    while !store.exists() || some(&store).is_none() {
        assert!(child.try_wait().unwrap().is_none(), "it was over before it could be killed");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let whole = "SELECT count(*) FROM conversations WHERE message_count <> 200
         OR (SELECT count(*) FROM sessions s JOIN messages m ON m.session_pk = s.pk
             WHERE s.conversation_pk = conversations.pk) <> 200";
    assert_eq!(terminal.value(whole), 0, "no half conversation is there");
    let brought = terminal.value("SELECT count(*) FROM conversations");
    let rest = terminal.import_json(hermes.path());
    assert_eq!(
        (&rest["conversations"]["unchanged"], &rest["conversations"]["made"]),
        (&json!(brought), &json!(40 - brought))
    );
    assert_eq!((terminal.value(whole), terminal.value("SELECT count(*) FROM messages")), (0, 8_000));
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
    assert_eq!(
        terminal
            .value("SELECT count(*) FROM conversations c JOIN tenants t ON t.pk = c.tenant_pk WHERE t.name = 'web'"),
        1
    );
}

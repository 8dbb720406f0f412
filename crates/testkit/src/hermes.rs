//! Databases as Hermes writes them: the tables, marks and compactions of its version 0.19, and the tables of an early
//! version.

use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

/// The tables of schema 22.
const NEWEST: &str = "
    CREATE TABLE schema_version (version INTEGER NOT NULL);
    CREATE TABLE state_meta (key TEXT PRIMARY KEY, value TEXT);
    CREATE TABLE compression_locks (session_id TEXT PRIMARY KEY, holder TEXT, acquired_at REAL, expires_at REAL);
    CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, session_key TEXT, chat_id TEXT,
        chat_type TEXT, thread_id TEXT, display_name TEXT, origin_json TEXT, expiry_finalized INTEGER DEFAULT 0,
        model TEXT, model_config TEXT, system_prompt TEXT, parent_session_id TEXT REFERENCES sessions (id),
        started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, message_count INTEGER DEFAULT 0,
        tool_call_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0,
        cache_read_tokens INTEGER DEFAULT 0, cache_write_tokens INTEGER DEFAULT 0,
        reasoning_tokens INTEGER DEFAULT 0, cwd TEXT, git_branch TEXT, git_repo_root TEXT, billing_provider TEXT,
        billing_base_url TEXT, billing_mode TEXT, estimated_cost_usd REAL, actual_cost_usd REAL, cost_status TEXT,
        cost_source TEXT, pricing_version TEXT, title TEXT, api_call_count INTEGER DEFAULT 0, handoff_state TEXT,
        handoff_platform TEXT, handoff_error TEXT, compression_failure_cooldown_until REAL,
        compression_failure_error TEXT, compression_fallback_streak INTEGER DEFAULT 0, profile_name TEXT,
        rewind_count INTEGER DEFAULT 0, archived INTEGER DEFAULT 0);
    CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions (id),
        role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT,
        effect_disposition TEXT, timestamp REAL NOT NULL, token_count INTEGER, finish_reason TEXT, reasoning TEXT,
        reasoning_content TEXT, reasoning_details TEXT, codex_reasoning_items TEXT, codex_message_items TEXT,
        platform_message_id TEXT, observed INTEGER DEFAULT 0, active INTEGER DEFAULT 1, compacted INTEGER DEFAULT 0,
        api_content TEXT);
    CREATE INDEX messages_in_order ON messages (session_id, timestamp);
    CREATE VIRTUAL TABLE messages_fts USING fts5 (content);
    CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
        INSERT INTO messages_fts (rowid, content)
        VALUES (new.id, coalesce(new.content, '') || ' ' || coalesce(new.tool_calls, ''));
    END;
    INSERT INTO schema_version VALUES (22);";

/// The tables of an early Hermes.
const OLD: &str = "
    CREATE TABLE schema_version (version INTEGER NOT NULL);
    CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, model_config TEXT,
        system_prompt TEXT, parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
        message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0, input_tokens INTEGER DEFAULT 0,
        output_tokens INTEGER DEFAULT 0, title TEXT);
    CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
        content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,
        token_count INTEGER, finish_reason TEXT);
    INSERT INTO schema_version VALUES (4);";

/// How Hermes introduces a summary.
const SUMMARY: &str = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.";

/// A `state.db` that a test fills, as Hermes would.
pub struct HermesDatabase {
    connection: Connection,
    path: PathBuf,
}

impl HermesDatabase {
    /// A database of schema 22 in a directory.
    pub fn new(directory: &Path) -> Self {
        Self::with(directory, NEWEST)
    }

    /// A database of an early schema.
    pub fn old(directory: &Path) -> Self {
        Self::with(directory, OLD)
    }

    fn with(directory: &Path, tables: &str) -> Self {
        let path = directory.join("state.db");
        let connection = Connection::open(&path).expect("a database");
        connection.execute_batch("PRAGMA journal_mode = WAL;").expect("a write-ahead log");
        connection.execute_batch(tables).expect("tables");
        Self { connection, path }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs statements of the test.
    pub fn execute(&self, sql: &str) {
        self.connection.execute_batch(sql).expect("statements that can be run");
    }

    /// Inserts a session that began at `started_at`, with these columns set.
    pub fn session(&self, id: &str, started_at: f64, columns: &[(&str, &str)]) {
        let given = columns.iter().map(|(column, value)| (*column, Value::from((*value).to_owned())));
        let has_source = columns.iter().any(|(column, _)| *column == "source");
        let source = (!has_source).then(|| ("source", Value::from("cli".to_owned())));
        let own = [("id", Value::from(id.to_owned())), ("started_at", Value::from(started_at))];
        self.insert("sessions", own.into_iter().chain(source).chain(given).collect());
    }

    /// Ends a session.
    pub fn end(&self, id: &str, reason: &str, at: f64) {
        let ended = self
            .connection
            .execute("UPDATE sessions SET end_reason = ?2, ended_at = ?3 WHERE id = ?1", (id, reason, at));
        ended.expect("a session");
    }

    /// Inserts a message and returns its row id.
    pub fn message(&self, session: &str, role: &str, content: Option<&str>, columns: &[(&str, &str)]) -> i64 {
        let next: f64 = self
            .connection
            .query_row("SELECT 1.7e9 + count(*) FROM messages", [], |row| row.get(0))
            .expect("messages that can be counted");
        let mut values = vec![
            ("session_id", Value::from(session.to_owned())),
            ("role", Value::from(role.to_owned())),
            ("content", content.map_or(Value::Null, |content| content.to_owned().into())),
            ("timestamp", next.into()),
        ];
        values.extend(columns.iter().map(|(column, value)| (*column, Value::from((*value).to_owned()))));
        self.insert("messages", values);
        self.connection.last_insert_rowid()
    }

    /// Inserts a user's message and the answer to it.
    pub fn turn(&self, session: &str, question: &str, answer: &str) {
        self.message(session, "user", Some(question), &[]);
        self.message(session, "assistant", Some(answer), &[("finish_reason", "stop")]);
    }

    /// Inserts a summary as Hermes writes it.
    pub fn summary(&self, session: &str, text: &str) -> i64 {
        self.message(session, "user", Some(&format!("{SUMMARY}\n{text}")), &[])
    }

    /// Marks all active messages as summarised. A compaction in place does this before it writes new messages.
    pub fn archive(&self, session: &str) {
        let marked = self
            .connection
            .execute("UPDATE messages SET active = 0, compacted = 1 WHERE session_id = ?1 AND active = 1", [session]);
        marked.expect("messages");
    }

    /// Inserts `count` turns in one transaction.
    pub fn turns(&self, session: &str, count: usize) {
        self.execute("BEGIN");
        for at in 0..count {
            self.turn(session, &format!("question {at}"), &format!("answer {at}"));
        }
        self.execute("COMMIT");
    }

    fn insert(&self, table: &str, values: Vec<(&str, Value)>) {
        let (columns, values): (Vec<&str>, Vec<Value>) = values.into_iter().unzip();
        let marks = vec!["?"; columns.len()].join(", ");
        let sql = format!("INSERT INTO {table} ({}) VALUES ({marks})", columns.join(", "));
        let inserted =
            self.connection.prepare_cached(&sql).and_then(|mut insert| insert.execute(params_from_iter(values)));
        inserted.expect("a row of that table");
    }
}

/// Writes a `response_store.db` beside a database. Each response names its session. Each slug names its response.
pub fn response_store(directory: &Path, slugs: &[(&str, &str)], responses: &[(&str, &str)]) {
    let connection = Connection::open(directory.join("response_store.db")).expect("a database");
    connection
        .execute_batch(
            "CREATE TABLE responses (response_id TEXT PRIMARY KEY, data TEXT NOT NULL, accessed_at REAL NOT NULL);
             CREATE TABLE conversations (name TEXT PRIMARY KEY, response_id TEXT NOT NULL);",
        )
        .expect("tables");
    for (response, session) in responses {
        let data =
            serde_json::json!({ "response": { "id": response }, "conversation_history": [], "session_id": session });
        let stored = connection.execute("INSERT INTO responses VALUES (?1, ?2, 1.0)", (response, data.to_string()));
        stored.expect("a response");
    }
    for (slug, response) in slugs {
        connection.execute("INSERT INTO conversations VALUES (?1, ?2)", (slug, response)).expect("a slug");
    }
}

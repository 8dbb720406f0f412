//! `state.db`.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row, Transaction};

use super::{HermesError, HermesMessage, HermesSession, columns, connect};

/// The newest schema of Hermes that this program knows.
pub const NEWEST_SCHEMA: i64 = 22;

/// The tables and columns that every version of Hermes has.
const ALWAYS: [(&str, &[&str]); 2] =
    [("sessions", &["id", "started_at"]), ("messages", &["id", "session_id", "role", "content"])];

/// A Hermes database that is open for reading.
pub struct HermesFile {
    connection: Connection,
    path: PathBuf,
    schema: Option<i64>,
    select_sessions: String,
    select_messages: String,
}

impl HermesFile {
    /// Opens a file and checks its schema and its data, so that errors appear before anything is imported.
    pub fn open(path: &Path) -> Result<Self, HermesError> {
        let connection = connect(path)?;
        let file = Self::inspect(&connection, path).map_err(|error| HermesError::of(path, &error))??;
        let FileLayout { schema, sessions, messages } = file;
        Ok(Self {
            connection,
            path: path.to_owned(),
            schema,
            select_sessions: format!("SELECT {sessions} FROM sessions"),
            select_messages: format!("SELECT {messages} FROM messages WHERE session_id = ?1 ORDER BY id"),
        })
    }

    fn inspect(connection: &Connection, path: &Path) -> rusqlite::Result<Result<FileLayout, HermesError>> {
        let path = path.to_owned();
        for (table, always) in ALWAYS {
            let there = columns(connection, table)?;
            if there.is_empty() {
                return Ok(Err(HermesError::NotHermes { path, missing: format!("table {table}") }));
            }
            if let Some(missing) = always.iter().find(|column| !there.iter().any(|name| name == *column)) {
                return Ok(Err(HermesError::NotHermes { path, missing: format!("column {table}.{missing}") }));
            }
        }
        let schema = schema(connection)?;
        if let Some(schema) = schema.filter(|schema| *schema > NEWEST_SCHEMA) {
            return Ok(Err(HermesError::Newer { path, schema }));
        }
        for (table, _) in ALWAYS {
            let said: String = connection.query_row(&format!("PRAGMA quick_check({table})"), [], |row| row.get(0))?;
            if said != "ok" {
                return Ok(Err(HermesError::Damaged { path, reason: said.replace('\n', " ") }));
            }
        }
        let sessions = list(&columns(connection, "sessions")?, &HermesSession::COLUMNS);
        let messages = list(&columns(connection, "messages")?, &HermesMessage::COLUMNS);
        Ok(Ok(FileLayout { schema, sessions, messages }))
    }

    /// The schema version that the file states. The oldest versions state none.
    pub fn schema(&self) -> Option<i64> {
        self.schema
    }

    /// The number of messages, to show progress.
    pub fn message_count(&self) -> Result<u64, HermesError> {
        let count = self.connection.query_row("SELECT count(*) FROM messages", [], |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).map_err(|error| self.failed(&error))
    }

    /// All sessions, the oldest first.
    pub fn sessions(&self) -> Result<Vec<HermesSession>, HermesError> {
        let select = format!("{} ORDER BY started_at, rowid", self.select_sessions);
        collect(&self.connection, &select, [], HermesSession::read).map_err(|error| self.failed(&error))
    }

    /// Sessions with their messages in the order of writing, all read in one transaction. A session that was deleted
    /// since it was listed is left out.
    pub fn transcripts(&self, ids: &[&str]) -> Result<Vec<(HermesSession, Vec<HermesMessage>)>, HermesError> {
        self.read_transcripts(ids).map_err(|error| self.failed(&error))
    }

    fn read_transcripts(&self, ids: &[&str]) -> rusqlite::Result<Vec<(HermesSession, Vec<HermesMessage>)>> {
        let moment: Transaction<'_> = self.connection.unchecked_transaction()?;
        let mut session = moment.prepare_cached(&format!("{} WHERE id = ?1", self.select_sessions))?;
        let mut messages = moment.prepare_cached(&self.select_messages)?;
        let mut transcripts = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(session) = session.query_row([id], HermesSession::read).optional()? {
                let said = messages.query_map([id], HermesMessage::read)?.collect::<rusqlite::Result<_>>()?;
                transcripts.push((session, said));
            }
        }
        Ok(transcripts)
    }

    /// Whether a session has a message that begins with one of these words.
    pub fn has_message_beginning(&self, session: &str, words: &[&str]) -> Result<bool, HermesError> {
        let exists = |word: &&str| {
            self.connection
                .prepare_cached("SELECT 1 FROM messages WHERE session_id = ?1 AND substr(content, 1, length(?2)) = ?2")?
                .exists([session, word])
        };
        let found: rusqlite::Result<Vec<bool>> = words.iter().map(exists).collect();
        found.map(|found| found.contains(&true)).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &rusqlite::Error) -> HermesError {
        HermesError::of(&self.path, error)
    }
}

/// What was found out about a file.
struct FileLayout {
    schema: Option<i64>,
    sessions: String,
    messages: String,
}

fn schema(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    if columns(connection, "schema_version")?.is_empty() {
        return Ok(None);
    }
    connection.query_row("SELECT max(version) FROM schema_version", [], |row| row.get(0))
}

/// A column list in which missing columns are NULL, so that the positions are always the same.
fn list(there: &[String], wanted: &[&'static str]) -> String {
    let select = |column: &'static str| if there.iter().any(|name| name == column) { column } else { "NULL" };
    wanted.iter().copied().map(select).collect::<Vec<_>>().join(", ")
}

fn collect<T>(
    connection: &Connection,
    select: &str,
    parameters: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare(select)?.query_map(parameters, read)?.collect()
}

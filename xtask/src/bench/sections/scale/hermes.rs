//! A Hermes database for the import: many sessions, some in chains of compactions, some delegated.

use std::path::Path;

use herma_testkit::HermesDatabase;
use rusqlite::{Connection, params};

use super::words::Language;

/// Messages per session.
const MESSAGES: usize = 20;
/// One of this many sessions continues the one before, which was compacted.
const CHAINED: usize = 10;
/// One of this many sessions is delegated.
const DELEGATED: usize = 7;

/// The start of the first session, in seconds.
const BEGAN: f64 = 1_760_000_000.0;
const SUMMARY: &str =
    "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted into the summary below.\nThey talked.";

/// Fills a database with this many sessions. Returns the number of messages.
pub(super) fn make(directory: &Path, sessions: usize) -> rusqlite::Result<usize> {
    let database = HermesDatabase::new(directory);
    // The import does not read Hermes' own search index, which takes longer than all the rest.
    database.execute("DROP TRIGGER messages_fts_insert");
    let mut connection = Connection::open(database.path())?;
    let transaction = connection.transaction()?;
    let mut language = Language::new(7);
    let mut told = 0;
    {
        let mut session = transaction.prepare(
            "INSERT INTO sessions
                 (id, source, model, model_config, parent_session_id, started_at, ended_at, end_reason, title)
             VALUES (?1, 'cli', 'model-1', ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        let mut message = transaction.prepare(
            "INSERT INTO messages (session_id, role, content, timestamp, finish_reason) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for number in 0..sessions {
            let id = |number: usize| format!("20260101_{number:06}");
            let began = BEGAN + (number * 60) as f64;
            let goes_on = number % CHAINED == 1;
            let is_compacted = number % CHAINED == 0 && number + 1 < sessions;
            let delegated =
                (number % DELEGATED == 3 && !goes_on).then(|| format!(r#"{{"_delegate_from":"{}"}}"#, id(number - 1)));
            let parent = (goes_on || delegated.is_some()).then(|| id(number - 1));
            let (ended, reason) = if is_compacted { (Some(began + 50.0), Some("compression")) } else { (None, None) };
            session.execute(params![id(number), delegated, parent, began, ended, reason, language.title()])?;
            for nth in 0..MESSAGES {
                let (role, finish) = if nth % 2 == 0 { ("user", None) } else { ("assistant", Some("stop")) };
                let text = if goes_on && nth == 0 { SUMMARY.to_owned() } else { language.message() };
                message.execute(params![id(number), role, text, began + nth as f64, finish])?;
                told += 1;
            }
        }
    }
    transaction.commit()?;
    Ok(told)
}

//! The schema, as numbered files that are applied in order and never reverted.
//!
//! Each file runs once, under the write lock, and its checksum is stored. If a file was changed afterwards, or if a
//! newer Herma has written the database, the database is refused and not changed.
//!
//! A process that has the file open is not stopped: its connections read the new schema before their next statement. So
//! a file must leave older statements correct where it can. Older processes are to be restarted, because only the
//! opening of a file checks its version.

use herma_store::StoreError;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};
use sha2::{Digest, Sha256};

use crate::failure::{StoreResult, Translate, translate};
use crate::memories::words;

/// Marks a file as Herma's, in SQLite's `application_id`.
pub(crate) const APPLICATION_ID: i32 = 0x4865_726d;

struct Migration {
    number: i32,
    sql: &'static str,
}

/// The step that makes the table of the words of facts. SQL cannot split a text into words, so the rows are added here.
const MEMORY_WORDS: i32 = 38;

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, sql: include_str!("../migrations/0001_ground.sql") },
    Migration { number: 2, sql: include_str!("../migrations/0002_compactions.sql") },
    Migration { number: 3, sql: include_str!("../migrations/0003_responses.sql") },
    Migration { number: 4, sql: include_str!("../migrations/0004_promised.sql") },
    Migration { number: 5, sql: include_str!("../migrations/0005_deletion.sql") },
    Migration { number: 6, sql: include_str!("../migrations/0006_waiting_messages.sql") },
    Migration { number: 7, sql: include_str!("../migrations/0007_search.sql") },
    Migration { number: 8, sql: include_str!("../migrations/0008_imports.sql") },
    Migration { number: 9, sql: include_str!("../migrations/0009_lineage.sql") },
    Migration { number: 10, sql: include_str!("../migrations/0010_expiry.sql") },
    Migration { number: 11, sql: include_str!("../migrations/0011_events.sql") },
    Migration { number: 12, sql: include_str!("../migrations/0012_titles.sql") },
    Migration { number: 13, sql: include_str!("../migrations/0013_missing_parents.sql") },
    Migration { number: 14, sql: include_str!("../migrations/0014_begun_anew.sql") },
    Migration { number: 15, sql: include_str!("../migrations/0015_overtaking_retries.sql") },
    Migration { number: 16, sql: include_str!("../migrations/0016_erasure.sql") },
    Migration { number: 17, sql: include_str!("../migrations/0017_trimmed_compactions.sql") },
    Migration { number: 18, sql: include_str!("../migrations/0018_answered.sql") },
    Migration { number: 19, sql: include_str!("../migrations/0019_rewinds.sql") },
    Migration { number: 20, sql: include_str!("../migrations/0020_plain_names.sql") },
    Migration { number: 21, sql: include_str!("../migrations/0021_approvals.sql") },
    Migration { number: 22, sql: include_str!("../migrations/0022_usage.sql") },
    Migration { number: 23, sql: include_str!("../migrations/0023_histories.sql") },
    Migration { number: 24, sql: include_str!("../migrations/0024_expired_approvals.sql") },
    Migration { number: 25, sql: include_str!("../migrations/0025_checks_without_lists.sql") },
    Migration { number: 26, sql: include_str!("../migrations/0026_admissions.sql") },
    Migration { number: 27, sql: include_str!("../migrations/0027_editor.sql") },
    Migration { number: 28, sql: include_str!("../migrations/0028_key_limits.sql") },
    Migration { number: 29, sql: include_str!("../migrations/0029_branches_without_turns.sql") },
    Migration { number: 30, sql: include_str!("../migrations/0030_memories.sql") },
    Migration { number: 31, sql: include_str!("../migrations/0031_erasures.sql") },
    Migration { number: 32, sql: include_str!("../migrations/0032_outbox.sql") },
    Migration { number: 33, sql: include_str!("../migrations/0033_memory_versions.sql") },
    Migration { number: 34, sql: include_str!("../migrations/0034_readings.sql") },
    Migration { number: 35, sql: include_str!("../migrations/0035_fewer_pages.sql") },
    Migration { number: 36, sql: include_str!("../migrations/0036_event_numbers.sql") },
    Migration { number: 37, sql: include_str!("../migrations/0037_deliveries.sql") },
    Migration { number: MEMORY_WORDS, sql: include_str!("../migrations/0038_memory_words.sql") },
    Migration { number: 39, sql: include_str!("../migrations/0039_common_words.sql") },
    Migration { number: 40, sql: include_str!("../migrations/0040_index_writes.sql") },
    Migration { number: 41, sql: include_str!("../migrations/0041_quoted_blocks.sql") },
    Migration { number: 42, sql: include_str!("../migrations/0042_rewritten.sql") },
];

/// The newest schema version that this program knows.
pub(crate) fn newest() -> i32 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

/// Migrates the schema to the newest version.
pub(crate) fn run(connection: &mut Connection) -> StoreResult<()> {
    if version(connection)? == newest() {
        return verify(connection);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).translated()?;
    let current = version(&transaction)?;
    transaction
        .execute_batch(
            "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, checksum BLOB NOT NULL) STRICT",
        )
        .translated()?;
    verify(&transaction)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > current) {
        transaction.execute_batch(migration.sql).map_err(|error| refused(migration, &error))?;
        if migration.number == MEMORY_WORDS {
            words::add_all(&transaction)?;
        }
        transaction
            .execute(
                "INSERT INTO migrations (number, checksum) VALUES (?1, ?2)",
                params![migration.number, checksum(migration)],
            )
            .translated()?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).translated()?;
    transaction.pragma_update(None, "user_version", newest()).translated()?;
    transaction.commit().translated()
}

/// Why a step failed. A step compares the schema with the one it was written for, and violates a constraint if they
/// differ.
fn refused(migration: &Migration, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => StoreError::Unusable(format!(
            "the database cannot get schema {}: {error}; nothing was changed. Restore it from a backup, or start with \
             an empty data directory",
            migration.number
        )),
        _ => translate(error),
    }
}

fn version(connection: &Connection) -> StoreResult<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).translated()
}

fn verify(connection: &Connection) -> StoreResult<()> {
    let mut statement = connection.prepare("SELECT number, checksum FROM migrations").translated()?;
    let applied = statement.query_map([], |row| Ok((row.get::<_, i32>(0)?, row.get::<_, Vec<u8>>(1)?))).translated()?;
    for row in applied {
        let (number, stored) = row.translated()?;
        let Some(known) = MIGRATIONS.iter().find(|migration| migration.number == number) else { continue };
        if stored != checksum(known) {
            return Err(StoreError::Unusable(format!(
                "the database was made by another build of Herma (schema step {number} differs); \
                 use that build, or start with an empty data directory"
            )));
        }
    }
    Ok(())
}

fn checksum(migration: &Migration) -> Vec<u8> {
    Sha256::digest(migration.sql.as_bytes()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_twice_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        run(&mut connection).unwrap();
        run(&mut connection).unwrap();
        assert_eq!(version(&connection).unwrap(), newest());
    }

    /// The program of a statement: the names of its instructions.
    fn instructions(connection: &Connection, sql: &str) -> Vec<String> {
        let mut explain = connection.prepare(&format!("EXPLAIN {sql}")).unwrap();
        explain.query_map([], |row| row.get(1)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn no_check_and_no_index_fills_a_temporary_table() {
        let mut connection = Connection::open_in_memory().unwrap();
        run(&mut connection).unwrap();
        // The statements of triggers are listed with the statement that fires them.
        let triggers: Vec<String> = connection
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
            .and_then(|mut select| select.query_map([], |row| row.get(0))?.collect())
            .unwrap();
        for trigger in triggers {
            connection.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
        }
        let columns: Vec<(String, String, String)> = connection
            .prepare(
                "SELECT t.name, c.name, coalesce((SELECT group_concat(k.name || ' = 1', ' AND ')
                 FROM pragma_table_info(t.name) k WHERE k.pk > 0), 'rowid = 1')
                 FROM pragma_table_list t JOIN pragma_table_info(t.name) c
                 WHERE t.type = 'table' AND t.schema = 'main' AND t.name NOT LIKE 'sqlite%'",
            )
            .and_then(|mut select| select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect())
            .unwrap();
        assert!(columns.len() > 100, "{columns:?}");
        for (table, column, row) in columns {
            for sql in [
                format!("INSERT INTO {table} ({column}) VALUES (1)"),
                format!("UPDATE {table} SET {column} = 1 WHERE {row}"),
            ] {
                let program = instructions(&connection, &sql);
                assert!(!program.iter().any(|name| name == "OpenEphemeral"), "{sql}: {program:?}");
            }
        }
    }

    #[test]
    fn a_step_that_was_changed_afterwards_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        run(&mut connection).unwrap();
        connection.execute("UPDATE migrations SET checksum = x'00'", []).unwrap();
        assert!(matches!(run(&mut connection), Err(StoreError::Unusable(_))));
    }
}

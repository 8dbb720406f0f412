//! Writes batches to the search index.

use std::time::Duration;

use herma_model::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::batch::{Batch, EntrySource, MESSAGES, RemovedRow, SOURCE};
use super::common;
use crate::failure::{StoreResult, Translate};

/// For how long only the process that wrote the index last may write it.
const CLAIM: Duration = Duration::from_secs(3);

/// Writes a batch, and returns the number of this write. `None`, and nothing is written, if a row or the list of common
/// words has changed since the batch was made.
pub(crate) fn write(connection: &Connection, batch: &Batch, owner: i64, now: Timestamp) -> StoreResult<Option<i64>> {
    let (through, common_changes): (i64, i64) = connection
        .prepare_cached("SELECT through, common_changes FROM search_state")
        .and_then(|mut select| select.query_row([], |row| Ok((row.get(0)?, row.get(1)?))))
        .translated()?;
    if batch.mark.is_some_and(|(from, _)| from != through) || batch.common_changes != common_changes {
        return Ok(None);
    }
    if !forget(connection, batch)? {
        return Ok(None);
    }
    if !is_unchanged(connection, batch)? {
        return Ok(None);
    }
    let mut insert =
        connection.prepare_cached("INSERT INTO search_index (rowid, terms) VALUES (?1, ?2)").translated()?;
    for entry in &batch.entries {
        if batch.mark.is_none() {
            connection
                .prepare_cached("DELETE FROM search_again WHERE key = ?1")
                .and_then(|mut delete| delete.execute([entry.key]))
                .translated()?;
        }
        if entry.made_of.is_some() {
            insert.execute(params![entry.key, entry.terms]).translated()?;
        }
    }
    let through = batch.mark.map_or(through, |(_, through)| through);
    connection
        .prepare_cached("UPDATE search_state SET through = ?1, owner = ?2, claimed_until = ?3")
        .and_then(|mut update| update.execute([through, owner, now.plus(CLAIM).0]))
        .translated()?;
    common::add(connection, &batch.found)?;
    // A trigger counts.
    connection
        .prepare_cached("SELECT writes FROM search_state")
        .and_then(|mut select| select.query_row([], |row| row.get(0).map(Some)))
        .translated()
}

/// Removes the terms of deleted or changed rows from the index. `false`, without any change, if these rows are no
/// longer the first in `search_forget`: another process has removed them, and terms must be removed exactly once.
fn forget(connection: &Connection, batch: &Batch) -> StoreResult<bool> {
    let first: Option<i64> = connection
        .prepare_cached("SELECT min(pk) FROM search_forget")
        .and_then(|mut select| select.query_row([], |row| row.get(0)))
        .translated()?;
    if first != batch.forgotten.first().map(|row| row.pk) {
        return Ok(false);
    }
    for RemovedRow { pk, key, terms } in &batch.forgotten {
        connection
            .prepare_cached("INSERT INTO search_index (search_index, rowid, terms) VALUES ('delete', ?1, ?2)")
            .and_then(|mut delete| delete.execute(params![key, terms]))
            .translated()?;
        connection
            .prepare_cached("DELETE FROM search_forget WHERE pk = ?1")
            .and_then(|mut delete| delete.execute([pk]))
            .translated()?;
    }
    common::remove_unused(connection, &batch.removed)?;
    Ok(true)
}

/// Whether all rows of a batch still say what its terms were made from, and none of them was indexed meanwhile.
fn is_unchanged(connection: &Connection, batch: &Batch) -> StoreResult<bool> {
    let Some((from, through)) = batch.mark else {
        for entry in &batch.entries {
            // A row that is indexed twice would leave its terms behind when it is removed.
            if !waits(connection, entry.key)? || entry.made_of != source(connection, entry.key)? {
                return Ok(false);
            }
        }
        return Ok(true);
    };
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {SOURCE} FROM {MESSAGES} WHERE m.pk > ?1 AND m.pk <= ?2 AND m.compaction_pk IS NULL
             ORDER BY m.pk"
        ))
        .translated()?;
    let mut rows = select.query([from, through]).translated()?;
    let mut entries = batch.entries.iter();
    while let Some(row) = rows.next().translated()? {
        let is_same = entries.next().map_or(Ok(false), |entry| entry.is_of(row)).translated()?;
        if !is_same {
            return Ok(false);
        }
    }
    Ok(entries.next().is_none())
}

/// Whether a changed row is not indexed yet.
fn waits(connection: &Connection, key: i64) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT 1 FROM search_again WHERE key = ?1")
        .and_then(|mut select| select.exists([key]))
        .translated()
}

/// What a row says now.
fn source(connection: &Connection, key: i64) -> StoreResult<Option<EntrySource>> {
    let found = if key < 0 {
        connection
            .prepare_cached("SELECT title FROM conversations WHERE pk = -?1 AND title IS NOT NULL")
            .and_then(|mut select| select.query_row([key], |row| row.get(0).map(EntrySource::Title)).optional())
    } else {
        connection
            .prepare_cached(&format!("SELECT {SOURCE} FROM {MESSAGES} WHERE m.pk = ?1 AND m.compaction_pk IS NULL"))
            .and_then(|mut select| {
                let read = |row: &Row<'_>| Ok(EntrySource::Message(row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
                select.query_row([key], read).optional()
            })
    };
    found.translated()
}

#[cfg(test)]
mod tests {
    use super::super::batch::{BatchLimit, next};
    use super::super::common::Vocabulary;
    use super::super::terms;
    use super::*;

    /// A database with three messages.
    fn database() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::migrations::run(&mut connection).unwrap();
        connection
            .execute_batch(
                "INSERT INTO tenants (pk, name, created_at) VALUES (1, 'tenant', 1);
                 INSERT INTO conversations (pk, tenant_pk, id, head_pk, root_pk, origin_kind, source, version, fence,
                 next_seq, created_at, updated_at)
                     VALUES (1, 1, zeroblob(16), 1, 1, 'main', 'api', 1, 1, 4, 1, 1);
                 INSERT INTO sessions (pk, tenant_pk, conversation_pk, id, kind, depth, creator_kind, created_at)
                     VALUES (1, 1, 1, 'trip', 'main', 0, 'api', 1);",
            )
            .unwrap();
        (1..=3).for_each(|seq| say(&connection, seq, "hello"));
        connection
    }

    fn say(connection: &Connection, seq: i64, text: &str) {
        connection
            .execute(
                "INSERT INTO messages (session_pk, seq, id, turn_pk, attempt, role, status, payload, digest, tokens,
                 created_at)
                 VALUES (1, ?1, randomblob(16), 1, 1, 'user', 'complete', json_object('content', ?2), randomblob(16), 1,
                 1)",
                params![seq, text],
            )
            .unwrap();
    }

    fn indexed(connection: &Connection, term: &str) -> Vec<i64> {
        let mut select = connection.prepare("SELECT rowid FROM search_index WHERE search_index MATCH ?1").unwrap();
        select.query_map([term], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    fn index(connection: &Connection) {
        while let Some(batch) = next(connection, &mut Vocabulary::new(), BatchLimit::SMALL).unwrap() {
            assert!(write(connection, &batch, 1, Timestamp(1)).unwrap().is_some());
        }
    }

    #[test]
    fn a_batch_whose_rows_have_changed_meanwhile_is_not_written() {
        for change in [
            "DELETE FROM messages WHERE pk = 2",
            "UPDATE messages SET payload = '{\"content\":\"bye\"}', digest = randomblob(16) WHERE pk = 2",
            "UPDATE messages SET id = randomblob(16) WHERE pk = 3",
            "UPDATE search_state SET through = 1",
            "UPDATE conversations SET session_key = 'mine'",
            "UPDATE conversations SET rewinds = '[{\"after\":1,\"through\":2}]'",
        ] {
            let connection = database();
            let batch = next(&connection, &mut Vocabulary::new(), BatchLimit::SMALL).unwrap().unwrap();
            connection.execute(change, []).unwrap();
            assert!(write(&connection, &batch, 1, Timestamp(1)).unwrap().is_none(), "{change}");
            assert!(indexed(&connection, "hello").is_empty(), "{change}");
        }
    }

    #[test]
    fn a_title_that_has_changed_again_meanwhile_is_read_again() {
        let connection = database();
        let titled = |title: &str| connection.execute("UPDATE conversations SET title = ?1", [title]).unwrap();
        titled("harbour");
        let batch = next(&connection, &mut Vocabulary::new(), BatchLimit::SMALL).unwrap().unwrap();
        titled("lighthouse");
        assert!(write(&connection, &batch, 1, Timestamp(1)).unwrap().is_none());
        index(&connection);
        assert_eq!((indexed(&connection, "harbour"), indexed(&connection, "lighthouse")), (vec![], vec![-1]));
    }

    #[test]
    fn a_title_that_another_process_has_indexed_meanwhile_is_not_indexed_twice() {
        let connection = database();
        connection.execute("UPDATE conversations SET title = 'harbour'", []).unwrap();
        let batch = next(&connection, &mut Vocabulary::new(), BatchLimit::SMALL).unwrap().unwrap();
        index(&connection);
        assert!(write(&connection, &batch, 2, Timestamp(1)).unwrap().is_none());
        connection.execute("UPDATE conversations SET title = NULL", []).unwrap();
        index(&connection);
        assert!(indexed(&connection, "harbour").is_empty());
    }

    #[test]
    fn a_conversation_that_gets_or_loses_its_key_is_indexed_again() {
        let connection = database();
        index(&connection);
        let key = format!("\"{}\"", terms::of_key(1, "mine"));
        for (change, rows) in [("'mine'", vec![1, 2, 3]), ("NULL", vec![])] {
            connection.execute(&format!("UPDATE conversations SET session_key = {change}"), []).unwrap();
            index(&connection);
            assert_eq!((indexed(&connection, &key), indexed(&connection, "hello")), (rows, vec![1, 2, 3]), "{change}");
        }
        connection.execute("UPDATE conversations SET session_key = 'mine'", []).unwrap();
        connection.execute("DELETE FROM messages WHERE pk = 2", []).unwrap();
        index(&connection);
        connection.execute("DELETE FROM messages WHERE pk = 3", []).unwrap();
        index(&connection);
        assert_eq!((indexed(&connection, &key), indexed(&connection, "hello")), (vec![1], vec![1]));
        connection.execute("INSERT INTO search_index (search_index) VALUES ('integrity-check')", []).unwrap();
    }

    #[test]
    fn a_row_key_that_is_reused_is_indexed_again() {
        let connection = database();
        index(&connection);
        assert_eq!(indexed(&connection, "hello"), [1, 2, 3]);
        connection.execute("DELETE FROM messages WHERE pk >= 2", []).unwrap();
        say(&connection, 2, "goodbye");
        index(&connection);
        assert_eq!((indexed(&connection, "hello"), indexed(&connection, "goodbye")), (vec![1], vec![2]));
    }

    #[test]
    fn every_write_has_a_higher_number_also_after_rows_were_deleted() {
        let connection = database();
        let number =
            || connection.query_row("SELECT writes FROM search_state", [], |row| row.get::<_, i64>(0)).unwrap();
        let mut before = number();
        for change in [
            "SELECT 1",
            "DELETE FROM messages WHERE pk = 3",
            "UPDATE messages SET payload = '{\"content\":\"bye\"}', digest = randomblob(16) WHERE pk = 2",
            "UPDATE conversations SET session_key = 'mine'",
        ] {
            connection.execute_batch(change).unwrap();
            index(&connection);
            assert!(number() > before, "{change}");
            before = number();
        }
    }

    #[test]
    fn a_message_that_is_deleted_while_it_waits_to_be_indexed_again_raises_the_version_of_its_key() {
        let connection = database();
        connection.execute("UPDATE conversations SET session_key = 'mine'", []).unwrap();
        index(&connection);
        let version = || {
            let key = herma_model::SessionKey::parse("mine").unwrap();
            crate::memories::versions::of(&connection, herma_model::TenantId(1), &key).unwrap().version
        };
        let change = "UPDATE messages SET payload = '{\"content\":\"bye\"}', digest = randomblob(16) WHERE pk = 2";
        connection.execute(change, []).unwrap();
        let before = version();
        connection.execute("DELETE FROM messages WHERE pk = 2", []).unwrap();
        assert!(version() > before);
    }
}

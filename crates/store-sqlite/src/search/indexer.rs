//! Writes the search index after the turns.
//!
//! Texts are read and split into terms outside of write transactions. The write transaction checks that the rows have
//! not changed, and moves the mark up to which everything is indexed. So the index stays correct after a crash, beside
//! other processes, and if a message is deleted meanwhile.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use herma_model::{ConversationId, MessageId, Role, Seq, Timestamp};
use herma_store::search::{fold, text_of};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::terms;
use crate::failure::{StoreResult, Translate};
use crate::remember::{IndexedMessage, RecallCache, Written};
use crate::writer::{JobOutcome, Writer};
use crate::{maintenance, rows};

/// The largest batch that is indexed at once.
#[derive(Clone, Copy)]
pub(crate) struct BatchLimit {
    /// Bytes of text.
    text: usize,
    rows: i64,
}

impl BatchLimit {
    /// Other writers wait a few milliseconds for it. Every batch is a segment of the index, which is merged with others
    /// later. So a few larger batches cost less than many small ones.
    pub(crate) const SMALL: Self = Self { text: 64 * 1024, rows: 512 };
    /// While the index is behind: fewer and longer waits for the others.
    const MEDIUM: Self = Self { text: 128 * 1024, rows: 1024 };
    /// If no caller waits for other writes.
    pub(crate) const LARGE: Self = Self { text: 256 * 1024, rows: 2048 };
}

/// The index is written if a message has waited this long, or if more than `MOST_WAITING` messages wait. What was said
/// under a session key is to be remembered in other conversations within 3 seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
const MOST_WAITING: i64 = 2000;
/// The index is behind if something has waited this long. Turns then wait for it rather than searches and recalls.
const BEHIND: Duration = Duration::from_millis(1500);
/// How much of a tick indexing may take while no turn runs, while turns run, and while the index is behind.
const SLICE: Duration = Duration::from_millis(50);
const SLICE_BESIDE_TURNS: Duration = Duration::from_millis(25);
const SLICE_BEHIND: Duration = Duration::from_millis(100);
/// For how long only the process that wrote the index last may write it.
const CLAIM: Duration = Duration::from_secs(3);

/// Columns of a message, from [`MESSAGES`], that tell whether it has changed. The last ones are the session key under
/// which it can be recalled, `NULL` if it is not to be recalled, and whether nothing hides it.
const SOURCE: &str = "m.pk, m.id, m.digest,
     iif(coalesce(r.recorded, c.origin_kind = 'main' OR c.origin_kind = 'branch') AND m.role <> 'tool', c.session_key,
     NULL), m.status = 'complete' AND c.rewinds IS NULL AND c.deleted = 0";
/// More columns, for a message that is indexed. They follow [`SOURCE`]. Those from the fourth on are for recalls.
const TEXT: &str = "m.payload, s.tenant_pk, s.conversation_pk, c.id, m.role, m.created_at, m.seq, r.recorded,
     c.session_key";
const MESSAGES: &str = "messages m CROSS JOIN sessions s ON s.pk = m.session_pk
     CROSS JOIN conversations c ON c.pk = s.conversation_pk LEFT JOIN recalls r ON r.turn_pk = m.turn_pk";

/// Decides when this process writes the index.
pub(crate) struct Indexer {
    owner: i64,
    /// Since when something waits. `None` if nothing did at the last look.
    since: Option<Instant>,
    remembered: Arc<RecallCache>,
}

struct PendingWork {
    forgotten: bool,
    messages: i64,
    newest: i64,
    again: bool,
    claimed: bool,
}

impl Indexer {
    /// What it writes is added to what recalls have read.
    pub(crate) fn new(remembered: Arc<RecallCache>) -> Self {
        Self { owner: random_owner(), since: None, remembered }
    }

    /// Writes what is due, if this is a good time.
    pub(crate) fn tick(&mut self, connection: &Connection, writer: &Writer, is_serving: bool) {
        if let Err(error) = self.try_tick(connection, writer, is_serving) {
            tracing::warn!(%error, "the search index was not written");
        }
    }

    fn try_tick(&mut self, connection: &Connection, writer: &Writer, is_serving: bool) -> StoreResult<()> {
        let waiting = self.waiting(connection)?;
        if waiting.messages == 0 && !waiting.again {
            self.since = None;
        } else {
            self.since.get_or_insert_with(Instant::now);
        }
        let is_due = waiting.forgotten
            || waiting.messages > MOST_WAITING
            || self.since.is_some_and(|since| since.elapsed() > LONGEST_WAIT);
        // Deletions do not wait for the process that has claimed the index.
        if !is_due || (waiting.claimed && !waiting.forgotten) {
            return Ok(());
        }
        let is_behind = self.since.is_some_and(|since| since.elapsed() > BEHIND);
        let (slice, most) = match is_behind {
            true => (SLICE_BEHIND, BatchLimit::MEDIUM),
            false if is_serving => (SLICE_BESIDE_TURNS, BatchLimit::SMALL),
            false => (SLICE, BatchLimit::SMALL),
        };
        let began = Instant::now();
        loop {
            // What comes meanwhile waits for the next time, because a batch of a few rows is as much work to merge.
            let Some(batch) = next(connection, most)?.filter(|batch| batch.is_of(waiting.newest)) else {
                self.since = None;
                return Ok(());
            };
            let Some(written) = self.submit(writer, batch) else { return Ok(()) };
            self.remembered.feed(written);
            if began.elapsed() > slice {
                return Ok(());
            }
        }
    }

    /// Has a batch written, and waits until it is committed. `None` if it was not written.
    fn submit(&self, writer: &Writer, batch: Batch) -> Option<Written> {
        let (answer, answered) = mpsc::channel();
        let owner = self.owner;
        let erasures = Arc::clone(&writer.erasures);
        writer.submit(move |connection, _| {
            let written = write(connection, &batch, owner, maintenance::now());
            if !batch.forgotten.is_empty() {
                erasures.add();
            }
            match written {
                Ok(number) => JobOutcome::Keep(Box::new(move |committed| {
                    let number = number.filter(|_| committed.is_ok());
                    let _ = answer.send(number.map(|number| batch.written(number)));
                })),
                Err(error) => maintenance::keep_or_log(Err::<(), _>(error)),
            }
        });
        answered.recv().ok().flatten()
    }

    fn waiting(&self, connection: &Connection) -> StoreResult<PendingWork> {
        connection
            .prepare_cached(
                "SELECT newest - through, newest, EXISTS (SELECT 1 FROM search_again), owner <> ?1 AND until > ?2,
                 EXISTS (SELECT 1 FROM search_forget) FROM search_state,
                 (SELECT coalesce(max(pk), 0) AS newest FROM messages)",
            )
            .and_then(|mut select| {
                select.query_row([self.owner, maintenance::now().0], |row| {
                    Ok(PendingWork {
                        messages: row.get(0)?,
                        newest: row.get(1)?,
                        again: row.get(2)?,
                        claimed: row.get(3)?,
                        forgotten: row.get(4)?,
                    })
                })
            })
            .translated()
    }
}

/// A random number that identifies this process.
pub(crate) fn random_owner() -> i64 {
    Uuid::new_v4().as_u64_pair().0.cast_signed()
}

/// Rows that are indexed together.
pub(crate) struct Batch {
    /// Rows whose terms are removed from the index first.
    forgotten: Vec<RemovedRow>,
    entries: Vec<IndexEntry>,
    /// Everything in this range of message keys is indexed after the write. `None` for rows that have changed.
    mark: Option<(i64, i64)>,
}

impl Batch {
    /// Whether it has rows up to message `newest`.
    pub(crate) fn is_of(&self, newest: i64) -> bool {
        self.mark.is_none_or(|(from, _)| from < newest)
    }

    /// The message key up to which everything is indexed after the write. `None` for rows that have changed.
    pub(crate) fn through(&self) -> Option<i64> {
        self.mark.map(|(_, through)| through)
    }

    /// What it has added to the index, with the number of that write.
    pub(crate) fn written(self, number: i64) -> Written {
        let is_new = self.mark.is_some() || self.entries.is_empty();
        Written { number, is_new, messages: self.entries.into_iter().filter_map(IndexEntry::indexed_message).collect() }
    }
}

/// A deleted or changed row, with the terms that the index has of it.
struct RemovedRow {
    /// Its key in `search_forget`.
    pk: i64,
    key: i64,
    terms: String,
}

struct IndexEntry {
    key: i64,
    /// What its terms were made from. `None` if the row is gone.
    made_of: Option<EntrySource>,
    terms: String,
    /// Bytes that were read for it.
    read: usize,
    /// What recalls need to know of it, if it is a message that they may find.
    recallable: Option<RecallableMessage>,
}

struct RecallableMessage {
    tenant: i64,
    session_key: String,
    conversation: ConversationId,
    role: Role,
    created_at: Timestamp,
    seq: Seq,
    recorded: Option<bool>,
    text: Option<String>,
}

impl IndexEntry {
    /// Its cost, the larger of reading and writing. A long text with few terms is slow to read but quick to write.
    fn size(&self) -> usize {
        self.read.max(self.terms.len() / 4)
    }

    fn indexed_message(self) -> Option<IndexedMessage> {
        let Self { key, made_of: Some(EntrySource::Message(id, digest, ..)), terms, .. } = self else { return None };
        let RecallableMessage { tenant, session_key, conversation, role, created_at, seq, recorded, text } =
            self.recallable?;
        let message = MessageId::from_uuid(Uuid::from_bytes(id));
        Some(IndexedMessage {
            key,
            tenant,
            session_key,
            conversation,
            message,
            role,
            created_at,
            seq,
            digest,
            recorded,
            text,
            terms,
        })
    }

    /// Whether it was made from this row of [`SOURCE`].
    fn is_of(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let Some(EntrySource::Message(id, digest, session_key, is_shown)) = &self.made_of else { return Ok(false) };
        Ok(row.get::<_, i64>(0)? == self.key
            && row.get_ref(1)?.as_blob()? == id
            && row.get_ref(2)?.as_blob()? == digest
            && key_of(row, 3)? == session_key.as_deref()
            && row.get::<_, bool>(4)? == *is_shown)
    }
}

#[derive(PartialEq, Eq)]
enum EntrySource {
    /// Its id, its digest, the session key of its conversation, and whether nothing hides it.
    Message([u8; 16], [u8; 16], Option<String>, bool),
    Title(String),
}

/// The batch that is to be indexed next.
pub(crate) fn next(connection: &Connection, most: BatchLimit) -> StoreResult<Option<Batch>> {
    let forgotten = forgotten(connection, most)?;
    if !forgotten.is_empty() {
        return Ok(Some(Batch { forgotten, entries: Vec::new(), mark: None }));
    }
    let again: Vec<i64> = connection
        .prepare_cached("SELECT key FROM search_again LIMIT ?1")
        .and_then(|mut select| select.query_map([most.rows], |row| row.get(0))?.collect())
        .translated()?;
    if !again.is_empty() {
        return changed(connection, &again, most).map(Some);
    }
    let from: i64 = connection
        .prepare_cached("SELECT through FROM search_state")
        .and_then(|mut select| select.query_row([], |row| row.get(0)))
        .translated()?;
    following(connection, from, most)
}

/// Rows whose terms are to be removed from the index.
fn forgotten(connection: &Connection, most: BatchLimit) -> StoreResult<Vec<RemovedRow>> {
    let mut select = connection
        .prepare_cached(
            "SELECT pk, key, said, tenant_pk, conversation_pk, session_key FROM search_forget ORDER BY pk LIMIT ?1",
        )
        .translated()?;
    let mut rows = select.query([most.rows]).translated()?;
    let (mut all, mut size) = (Vec::new(), 0);
    while let Some(row) = rows.next().translated()? {
        let entry = forgotten_row(connection, row)?;
        size += entry.terms.len() / 4;
        all.push(entry);
        if size > most.text {
            break;
        }
    }
    Ok(all)
}

/// A row of `search_forget`. The index itself tells whether it has the session key among the row's terms.
fn forgotten_row(connection: &Connection, row: &Row<'_>) -> StoreResult<RemovedRow> {
    let (pk, key, tenant, conversation) = read_keys(row).translated()?;
    let said = row.get_ref(2).and_then(|said| Ok(said.as_str()?)).translated()?;
    let text = if key < 0 { fold(said) } else { fold(&text_of(said)) };
    let session_key = match key_of(row, 5).translated()? {
        Some(session_key) if has_term(connection, key, &terms::of_key(tenant, session_key))? => Some(session_key),
        Some(_) | None => None,
    };
    Ok(RemovedRow { pk, key, terms: terms::of_text(&text, tenant, conversation, session_key) })
}

fn read_keys(row: &Row<'_>) -> rusqlite::Result<(i64, i64, i64, i64)> {
    Ok((row.get(0)?, row.get(1)?, row.get(3)?, row.get(4)?))
}

/// Whether the index has a term of a row.
fn has_term(connection: &Connection, key: i64, term: &str) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT 1 FROM search_index WHERE search_index MATCH ?1 AND rowid = ?2")
        .and_then(|mut select| select.exists(params![terms::quoted(term), key]))
        .translated()
}

/// The batch after message `from`.
pub(crate) fn following(connection: &Connection, from: i64, most: BatchLimit) -> StoreResult<Option<Batch>> {
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT {SOURCE}, {TEXT}, m.compaction_pk IS NULL FROM {MESSAGES} WHERE m.pk > ?1 ORDER BY m.pk LIMIT ?2"
        ))
        .translated()?;
    let mut rows = select.query([from, most.rows]).translated()?;
    let (mut entries, mut size, mut through) = (Vec::new(), 0, from);
    while let Some(row) = rows.next().translated()? {
        through = row.get(0).translated()?;
        if row.get(14).translated()? {
            let entry = message(row).translated()?;
            size += entry.size();
            entries.push(entry);
        }
        if size > most.text {
            break;
        }
    }
    Ok((through > from).then_some(Batch { forgotten: Vec::new(), entries, mark: Some((from, through)) }))
}

fn message(row: &Row<'_>) -> rusqlite::Result<IndexEntry> {
    let session_key = key_of(row, 3)?;
    let payload = row.get_ref(5)?.as_str()?;
    let text = text_of(payload);
    let terms = terms::of_text(&fold(&text), row.get(6)?, row.get(7)?, session_key);
    let recallable = recallable(row, text, session_key.is_some())?;
    Ok(IndexEntry {
        key: row.get(0)?,
        made_of: Some(EntrySource::Message(row.get(1)?, row.get(2)?, session_key.map(str::to_owned), row.get(4)?)),
        terms,
        read: payload.len(),
        recallable,
    })
}

/// `None` if it is not recalled under any key. A turn that has not ended may still say that it is recorded.
fn recallable(row: &Row<'_>, text: String, has_key_term: bool) -> rusqlite::Result<Option<RecallableMessage>> {
    let recorded: Option<bool> = row.get(12)?;
    let role = rows::word(row, 9, Role::parse)?;
    let Some(session_key) = key_of(row, 13)?.filter(|_| has_key_term || (recorded.is_none() && role != Role::Tool))
    else {
        return Ok(None);
    };
    Ok(Some(RecallableMessage {
        tenant: row.get(6)?,
        session_key: session_key.to_owned(),
        conversation: ConversationId::from_uuid(rows::uuid(row, 8)?),
        role,
        created_at: Timestamp(row.get(10)?),
        seq: Seq(row.get(11)?),
        recorded: recorded.filter(|_| has_key_term),
        text: row.get::<_, bool>(4)?.then_some(text),
    }))
}

/// A session key as it is stored.
fn key_of<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<Option<&'a str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

/// Rows that have changed since they were indexed, as they are now.
fn changed(connection: &Connection, keys: &[i64], most: BatchLimit) -> StoreResult<Batch> {
    let mut entries = Vec::new();
    let mut size = 0;
    for &key in keys {
        let entry = if key < 0 {
            connection
                .prepare_cached("SELECT title, tenant_pk, pk FROM conversations WHERE pk = -?1 AND title IS NOT NULL")
                .and_then(|mut select| select.query_row([key], |row| title(key, row)).optional())
        } else {
            connection
                .prepare_cached(&format!(
                    "SELECT {SOURCE}, {TEXT} FROM {MESSAGES} WHERE m.pk = ?1 AND m.compaction_pk IS NULL"
                ))
                .and_then(|mut select| select.query_row([key], message).optional())
        };
        let entry = entry.translated()?.unwrap_or_else(|| IndexEntry {
            key,
            made_of: None,
            terms: String::new(),
            read: 0,
            recallable: None,
        });
        size += entry.size();
        entries.push(entry);
        if size > most.text {
            break;
        }
    }
    Ok(Batch { forgotten: Vec::new(), entries, mark: None })
}

fn title(key: i64, row: &Row<'_>) -> rusqlite::Result<IndexEntry> {
    let title: String = row.get(0)?;
    let terms = terms::of_text(&fold(&title), row.get(1)?, row.get(2)?, None);
    Ok(IndexEntry { key, read: title.len(), made_of: Some(EntrySource::Title(title)), terms, recallable: None })
}

/// Writes a batch, and returns the number of this write. `None`, and nothing is written, if a row has changed since the
/// batch was made.
pub(crate) fn write(connection: &Connection, batch: &Batch, owner: i64, now: Timestamp) -> StoreResult<Option<i64>> {
    let through: i64 = connection
        .prepare_cached("SELECT through FROM search_state")
        .and_then(|mut select| select.query_row([], |row| row.get(0)))
        .translated()?;
    if batch.mark.is_some_and(|(from, _)| from != through) {
        return Ok(None);
    }
    if !forget(connection, &batch.forgotten)? {
        return Ok(None);
    }
    if !is_unchanged(connection, batch)? {
        return Ok(None);
    }
    for entry in &batch.entries {
        if batch.mark.is_none() {
            connection
                .prepare_cached("DELETE FROM search_again WHERE key = ?1")
                .and_then(|mut delete| delete.execute([entry.key]))
                .translated()?;
        }
        if entry.made_of.is_some() {
            connection
                .prepare_cached("INSERT INTO search_index (rowid, terms) VALUES (?1, ?2)")
                .and_then(|mut insert| insert.execute(params![entry.key, entry.terms]))
                .translated()?;
        }
    }
    let through = batch.mark.map_or(through, |(_, through)| through);
    connection
        .prepare_cached("UPDATE search_state SET through = ?1, owner = ?2, until = ?3")
        .and_then(|mut update| update.execute([through, owner, now.plus(CLAIM).0]))
        .translated()?;
    // A trigger counts.
    connection
        .prepare_cached("SELECT writes FROM search_state")
        .and_then(|mut select| select.query_row([], |row| row.get(0).map(Some)))
        .translated()
}

/// Removes the terms of deleted or changed rows from the index. `false`, without any change, if these rows are no
/// longer the first in `search_forget`: another process has removed them, and terms must be removed exactly once.
fn forget(connection: &Connection, forgotten: &[RemovedRow]) -> StoreResult<bool> {
    let first: Option<i64> = connection
        .prepare_cached("SELECT min(pk) FROM search_forget")
        .and_then(|mut select| select.query_row([], |row| row.get(0)))
        .translated()?;
    if first != forgotten.first().map(|row| row.pk) {
        return Ok(false);
    }
    for RemovedRow { pk, key, terms } in forgotten {
        connection
            .prepare_cached("INSERT INTO search_index (search_index, rowid, terms) VALUES ('delete', ?1, ?2)")
            .and_then(|mut delete| delete.execute(params![key, terms]))
            .translated()?;
        connection
            .prepare_cached("DELETE FROM search_forget WHERE pk = ?1")
            .and_then(|mut delete| delete.execute([pk]))
            .translated()?;
    }
    Ok(true)
}

/// Whether all rows of a batch still say what its terms were made from.
fn is_unchanged(connection: &Connection, batch: &Batch) -> StoreResult<bool> {
    let Some((from, through)) = batch.mark else {
        for entry in &batch.entries {
            if entry.made_of != source(connection, entry.key)? {
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
        while let Some(batch) = next(connection, BatchLimit::SMALL).unwrap() {
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
            let batch = next(&connection, BatchLimit::SMALL).unwrap().unwrap();
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
        let batch = next(&connection, BatchLimit::SMALL).unwrap().unwrap();
        titled("lighthouse");
        assert!(write(&connection, &batch, 1, Timestamp(1)).unwrap().is_none());
        index(&connection);
        assert_eq!((indexed(&connection, "harbour"), indexed(&connection, "lighthouse")), (vec![], vec![-1]));
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

//! Batches: rows to index or to take out of the index, with their terms.

use std::collections::{BTreeSet, HashSet};

use herma_model::{ConversationId, MessageId, Role, Seq, Timestamp};
use herma_store::search::{fold, text_of};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::common::{self, Vocabulary};
use super::terms::{self, RowOwner};
use crate::failure::{StoreResult, Translate};
use crate::remember::{IndexedMessage, Written};
use crate::rows;

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
    pub(crate) const SMALL: Self = Self { text: 96 * 1024, rows: 1024 };
    /// While the index is behind: fewer and longer waits for the others.
    pub(super) const MEDIUM: Self = Self { text: 192 * 1024, rows: 2048 };
    /// If no caller waits for other writes.
    pub(crate) const LARGE: Self = Self { text: 384 * 1024, rows: 4096 };
}

/// Columns of a message, from [`MESSAGES`], that tell whether it has changed. The last ones are the session key under
/// which it may be recalled, `NULL` if it is not to be recalled, and whether nothing hides it. A turn that has not
/// ended may still say that it is recorded.
pub(super) const SOURCE: &str = "m.pk, m.id, m.digest,
     iif(coalesce(r.recorded, c.origin_kind = 'main' OR c.origin_kind = 'branch'
                  OR EXISTS (SELECT 1 FROM turns t WHERE t.pk = m.turn_pk AND t.state <> 'completed'))
         AND m.role <> 'tool', c.session_key, NULL),
     m.status = 'complete' AND c.rewinds IS NULL AND c.deleted = 0";
/// More columns, for a message that is indexed. They follow [`SOURCE`]. Those from the fourth on are for recalls.
const TEXT: &str = "m.payload, s.tenant_pk, s.conversation_pk, c.id, m.role, m.created_at, m.seq, r.recorded,
     c.session_key";
pub(super) const MESSAGES: &str = "messages m CROSS JOIN sessions s ON s.pk = m.session_pk
     CROSS JOIN conversations c ON c.pk = s.conversation_pk LEFT JOIN recalls r ON r.turn_pk = m.turn_pk";

/// Rows that are indexed together.
pub(crate) struct Batch {
    /// Rows whose terms are removed from the index first.
    pub(super) forgotten: Vec<RemovedRow>,
    pub(super) entries: Vec<IndexEntry>,
    /// Everything in this range of message keys is indexed after the write. `None` for rows that have changed.
    pub(super) mark: Option<(i64, i64)>,
    /// The number of changes of the list of common words that the terms were made with.
    pub(super) common_changes: i64,
    /// Words that may be new in that list after the write.
    pub(super) found: Vec<String>,
    /// Words of that list that were only in the removed rows.
    pub(super) removed: BTreeSet<String>,
}

impl Batch {
    const fn empty(common_changes: i64) -> Self {
        Self {
            forgotten: Vec::new(),
            entries: Vec::new(),
            mark: None,
            common_changes,
            found: Vec::new(),
            removed: BTreeSet::new(),
        }
    }

    /// Whether it has rows up to message `newest`.
    pub(crate) fn is_of(&self, newest: i64) -> bool {
        self.mark.is_none_or(|(from, _)| from < newest)
    }

    /// The message key after which the next batch can be made before this one is written. `None` if the next one
    /// depends on what this one changes.
    pub(crate) fn next_from(&self) -> Option<i64> {
        self.mark.filter(|_| self.found.is_empty()).map(|(_, through)| through)
    }

    /// What it has added to the index, with the number of that write.
    pub(crate) fn written(self, number: i64) -> Written {
        let is_new = self.mark.is_some() || self.entries.is_empty();
        Written { number, is_new, messages: self.entries.into_iter().filter_map(IndexEntry::indexed_message).collect() }
    }
}

/// A deleted or changed row, with the terms that the index has of it.
pub(super) struct RemovedRow {
    /// Its key in `search_forget`.
    pub(super) pk: i64,
    pub(super) key: i64,
    pub(super) terms: String,
}

/// A row to index.
pub(super) struct IndexEntry {
    pub(super) key: i64,
    /// What its terms were made from. `None` if the row is gone.
    pub(super) made_of: Option<EntrySource>,
    pub(super) terms: String,
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
    pub(super) fn is_of(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let Some(EntrySource::Message(id, digest, session_key, is_shown)) = &self.made_of else { return Ok(false) };
        Ok(row.get::<_, i64>(0)? == self.key
            && row.get_ref(1)?.as_blob()? == id
            && row.get_ref(2)?.as_blob()? == digest
            && key_of(row, 3)? == session_key.as_deref()
            && row.get::<_, bool>(4)? == *is_shown)
    }
}

#[derive(PartialEq, Eq)]
pub(super) enum EntrySource {
    /// Its id, its digest, the session key of its conversation, and whether nothing hides it.
    Message([u8; 16], [u8; 16], Option<String>, bool),
    Title(String),
}

/// The batch that is to be indexed next.
pub(crate) fn next(
    connection: &Connection,
    vocabulary: &mut Vocabulary,
    most: BatchLimit,
) -> StoreResult<Option<Batch>> {
    let common_changes = vocabulary.refresh(connection)?;
    let (forgotten, removed) = forgotten(connection, vocabulary, most)?;
    if !forgotten.is_empty() {
        return Ok(Some(Batch { forgotten, removed, ..Batch::empty(common_changes) }));
    }
    let again: Vec<i64> = connection
        .prepare_cached("SELECT key FROM search_again LIMIT ?1")
        .and_then(|mut select| select.query_map([most.rows], |row| row.get(0))?.collect())
        .translated()?;
    if !again.is_empty() {
        let entries = changed(connection, vocabulary, &again, most)?;
        return Ok(Some(Batch { entries, found: vocabulary.take_found(), ..Batch::empty(common_changes) }));
    }
    let from: i64 = connection
        .prepare_cached("SELECT through FROM search_state")
        .and_then(|mut select| select.query_row([], |row| row.get(0)))
        .translated()?;
    following(connection, vocabulary, from, most)
}

/// Rows whose terms are to be removed from the index.
fn forgotten(
    connection: &Connection,
    vocabulary: &Vocabulary,
    most: BatchLimit,
) -> StoreResult<(Vec<RemovedRow>, BTreeSet<String>)> {
    let mut select = connection
        .prepare_cached(
            "SELECT pk, key, said, tenant_pk, conversation_pk, session_key FROM search_forget ORDER BY pk LIMIT ?1",
        )
        .translated()?;
    let mut rows = select.query([most.rows]).translated()?;
    let (mut all, mut words, mut size) = (Vec::new(), BTreeSet::new(), 0);
    while let Some(row) = rows.next().translated()? {
        let entry = forgotten_row(connection, vocabulary, row, &mut words)?;
        size += entry.terms.len() / 4;
        all.push(entry);
        if size > most.text {
            break;
        }
    }
    // The few words that are left are looked for again when the batch is written. Another row that has a word now leaves
    // the index after the rows of this batch, and is then the one to be looked at.
    let keys: HashSet<i64> = all.iter().map(|row| row.key).collect();
    let mut last = BTreeSet::new();
    for word in words {
        if !common::has_other_row(connection, &word, &keys)? {
            last.insert(word);
        }
    }
    Ok((all, last))
}

/// A row of `search_forget`. Its words that are in the list of common words are added to `words`. The index itself
/// tells whether it has the session key among the row's terms.
fn forgotten_row(
    connection: &Connection,
    vocabulary: &Vocabulary,
    row: &Row<'_>,
    words: &mut BTreeSet<String>,
) -> StoreResult<RemovedRow> {
    let (pk, key, tenant, conversation) = read_keys(row).translated()?;
    let said = row.get_ref(2).and_then(|said| Ok(said.as_str()?)).translated()?;
    let text = if key < 0 { fold(said) } else { fold(&text_of(said)) };
    let session_key = match key_of(row, 5).translated()? {
        Some(session_key) if has_term(connection, key, &terms::of_key(tenant, session_key))? => Some(session_key),
        Some(_) | None => None,
    };
    for word in vocabulary.listed(&text) {
        if !words.contains(word) {
            words.insert(word.to_owned());
        }
    }
    let terms = vocabulary.written_terms(&text, RowOwner { key, tenant, conversation, session_key });
    Ok(RemovedRow { pk, key, terms })
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
pub(crate) fn following(
    connection: &Connection,
    vocabulary: &mut Vocabulary,
    from: i64,
    most: BatchLimit,
) -> StoreResult<Option<Batch>> {
    let common_changes = vocabulary.refresh(connection)?;
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
            let entry = message(row, vocabulary).translated()?;
            size += entry.size();
            entries.push(entry);
        }
        if size > most.text {
            break;
        }
    }
    if through == from {
        return Ok(None);
    }
    let found = vocabulary.take_found();
    Ok(Some(Batch { entries, mark: Some((from, through)), found, ..Batch::empty(common_changes) }))
}

fn message(row: &Row<'_>, vocabulary: &mut Vocabulary) -> rusqlite::Result<IndexEntry> {
    let key = row.get(0)?;
    let session_key = key_of(row, 3)?;
    let payload = row.get_ref(5)?.as_str()?;
    let text = text_of(payload);
    let row_owner = RowOwner { key, tenant: row.get(6)?, conversation: row.get(7)?, session_key };
    let terms = vocabulary.new_terms(&fold(&text), row_owner);
    let recallable = recallable(row, text, session_key.is_some())?;
    Ok(IndexEntry {
        key,
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
fn changed(
    connection: &Connection,
    vocabulary: &mut Vocabulary,
    keys: &[i64],
    most: BatchLimit,
) -> StoreResult<Vec<IndexEntry>> {
    let mut entries = Vec::new();
    let mut size = 0;
    for &key in keys {
        let entry = if key < 0 {
            connection
                .prepare_cached("SELECT title, tenant_pk, pk FROM conversations WHERE pk = -?1 AND title IS NOT NULL")
                .and_then(|mut select| select.query_row([key], |row| title(key, row, vocabulary)).optional())
        } else {
            connection
                .prepare_cached(&format!(
                    "SELECT {SOURCE}, {TEXT} FROM {MESSAGES} WHERE m.pk = ?1 AND m.compaction_pk IS NULL"
                ))
                .and_then(|mut select| select.query_row([key], |row| message(row, vocabulary)).optional())
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
    Ok(entries)
}

fn title(key: i64, row: &Row<'_>, vocabulary: &mut Vocabulary) -> rusqlite::Result<IndexEntry> {
    let title: String = row.get(0)?;
    let row_owner = RowOwner { key, tenant: row.get(1)?, conversation: row.get(2)?, session_key: None };
    let terms = vocabulary.new_terms(&fold(&title), row_owner);
    Ok(IndexEntry { key, read: title.len(), made_of: Some(EntrySource::Title(title)), terms, recallable: None })
}

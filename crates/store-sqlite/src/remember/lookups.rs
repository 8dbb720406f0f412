//! Looks up the rows of a word, facts and messages of one session key.
//!
//! What is known is taken from memory. The rest is read from the database, if there is a connection, and is known then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use herma_model::{ConversationId, MessageId, Role, Seq, Timestamp};
use herma_store::search::text_of;
use herma_store::{MemoryQuery, Passage, Shown, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::rank::{NEWEST, NEWEST_BESIDE_OWN};
use crate::failure::{StoreResult, Translate};
use crate::memories::{self, MEMORY, StoredMemory};
use crate::search::terms;
use crate::{rewinds, rows};

/// How long a list of messages is taken as complete if the index has not grown. Messages that are indexed again do not
/// make it grow.
const FRESH: Duration = Duration::from_secs(1);
/// How long a list that is not complete may be used while another recall reads it again.
const USABLE: Duration = Duration::from_millis(1500);
/// How long a recall may take to read a list again before another one does.
const READ_AGAIN: Duration = Duration::from_millis(250);

/// Bytes that an entry costs besides its text.
const ENTRY: usize = 160;

/// Why nothing was found.
#[derive(Debug)]
pub(super) enum NotFound {
    /// Something is not in memory, and there is no connection.
    Unknown,
    /// The database failed.
    Failed(StoreError),
}

impl From<StoreError> for NotFound {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A message that has a word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SaidRow {
    pub(super) key: i64,
    pub(super) conversation: ConversationId,
}

/// The newest messages with a word.
#[derive(Clone)]
pub(crate) struct SaidList {
    pub(super) rows: Arc<[SaidRow]>,
    /// Whether there may be older ones.
    pub(super) is_cut: bool,
    /// How much was indexed when it was read, and when that was.
    indexed: i64,
    read_at: Instant,
    /// When a recall began to read it again.
    read_again: Option<Instant>,
}

impl SaidList {
    /// Whether it has everything that is indexed.
    fn is_complete(&self, indexed: i64, now: Instant) -> bool {
        self.indexed == indexed && now.duration_since(self.read_at) < FRESH
    }

    /// Whether the caller must read it again. Of several recalls at a time one must, and the others go on with it.
    pub(super) fn must_be_read_again(&mut self, indexed: i64, now: Instant) -> bool {
        let is_read = self.read_again.is_some_and(|since| now.duration_since(since) < READ_AGAIN);
        let is_usable = is_read && now.duration_since(self.read_at) < USABLE;
        if self.is_complete(indexed, now) || is_usable {
            return false;
        }
        self.read_again = Some(now);
        true
    }
}

/// A message that may be recalled where it is not shown.
pub(crate) struct StoredPassage {
    pub(super) passage: Passage,
    pub(super) digest: [u8; 16],
    seq: Seq,
}

impl StoredPassage {
    /// Whether the asking conversation still shows it.
    pub(super) fn is_shown(&self, shown: &Shown) -> bool {
        self.passage.conversation == shown.conversation && shown.hidden_through.is_none_or(|hidden| self.seq > hidden)
    }
}

/// A word, and the conversation whose rows are left out.
type SaidKey = (String, Option<ConversationId>);

/// What is known about one session key at one version.
pub(crate) struct Known {
    pub(super) version: i64,
    /// How many of the newest facts were asked for, and these.
    pub(super) newest_facts: Option<(usize, Arc<[StoredMemory]>)>,
    pub(super) facts_with: HashMap<String, Arc<[i64]>>,
    pub(super) facts: HashMap<i64, Option<Arc<StoredMemory>>>,
    pub(super) said_with: HashMap<SaidKey, SaidList>,
    /// `None` for a message that must not be recalled.
    pub(super) said: HashMap<i64, Option<Arc<StoredPassage>>>,
}

impl Known {
    /// Nothing, at a version.
    pub(super) fn nothing(version: i64) -> Self {
        Self {
            version,
            newest_facts: None,
            facts_with: HashMap::new(),
            facts: HashMap::new(),
            said_with: HashMap::new(),
            said: HashMap::new(),
        }
    }

    /// What a query needs of it, without lists of messages that are not complete any more.
    pub(super) fn needed_for(&self, query: &MemoryQuery, now: Instant) -> Self {
        let mut needed = Self { newest_facts: self.newest_facts.clone(), ..Self::nothing(self.version) };
        for word in &query.words {
            if let Some(rows) = self.facts_with.get(word) {
                let facts = rows.iter().filter_map(|key| self.facts.get(key).map(|fact| (*key, fact.clone())));
                needed.facts.extend(facts);
                needed.facts_with.insert(word.clone(), Arc::clone(rows));
            }
            for except in [None, Some(query.shown.conversation)] {
                let key = (word.clone(), except);
                let Some(list) = self.said_with.get(&key) else { continue };
                let said = list.rows.iter().filter_map(|row| self.said.get(&row.key).map(|one| (row.key, one.clone())));
                needed.said.extend(said);
                if query.as_of.is_some_and(|as_of| list.is_complete(as_of.indexed, now)) {
                    needed.said_with.insert(key, list.clone());
                }
            }
        }
        needed
    }

    /// Adds what is known at the same version.
    pub(super) fn extend(&mut self, other: Self) {
        if let Some((asked, _)) = other.newest_facts
            && self.newest_facts.as_ref().is_none_or(|(known, _)| *known < asked)
        {
            self.newest_facts = other.newest_facts;
        }
        self.facts_with.extend(other.facts_with);
        self.facts.extend(other.facts);
        self.said.extend(other.said);
        for (key, list) in other.said_with {
            let is_newer = self.said_with.get(&key).is_none_or(|known| known.read_at <= list.read_at);
            if is_newer {
                self.said_with.insert(key, list);
            }
        }
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let newest = self.newest_facts.iter().flat_map(|(_, newest)| newest.iter());
        let facts = self.facts.values().map(|fact| fact.as_ref().map_or(0, |fact| fact.memory.text.len()));
        let said = self.said.values().map(|said| said.as_ref().map_or(0, |said| said.passage.text.len()));
        newest.map(|fact| fact.memory.text.len() + ENTRY).sum::<usize>()
            + facts.chain(said).map(|text| text + ENTRY).sum::<usize>()
            + self.facts_with.iter().map(|(word, rows)| word.len() + rows.len() * 8 + ENTRY).sum::<usize>()
            + self.said_with.iter().map(|((word, _), list)| word.len() + list.rows.len() * 24 + ENTRY).sum::<usize>()
    }
}

/// Looks things up for one query.
pub(super) struct Lookups<'a> {
    pub(super) known: &'a mut Known,
    pub(super) connection: Option<&'a Connection>,
    pub(super) query: &'a MemoryQuery,
    /// How much is indexed.
    pub(super) indexed: i64,
}

impl<'a> Lookups<'a> {
    fn connection(&self) -> Result<&'a Connection, NotFound> {
        self.connection.ok_or(NotFound::Unknown)
    }

    fn key_term(&self) -> String {
        terms::of_key(self.query.tenant.0, self.query.session_key.as_str())
    }

    /// At least the newest `count` facts, or all.
    pub(super) fn newest_facts(&mut self, count: usize) -> Result<Arc<[StoredMemory]>, NotFound> {
        if let Some((asked, newest)) = &self.known.newest_facts
            && *asked >= count
        {
            return Ok(Arc::clone(newest));
        }
        let newest: Vec<StoredMemory> = self
            .connection()?
            .prepare_cached(&format!(
                "SELECT {MEMORY} FROM memories m WHERE m.tenant_pk = ?1 AND m.session_key = ?2
                 ORDER BY m.pk DESC LIMIT ?3"
            ))
            .and_then(|mut select| {
                let asked = params![self.query.tenant.0, self.query.session_key.as_str(), count as i64];
                select.query_map(asked, memories::read)?.collect()
            })
            .translated()?;
        let newest: Arc<[StoredMemory]> = Arc::from(newest);
        self.known.newest_facts = Some((count, Arc::clone(&newest)));
        Ok(newest)
    }

    /// The newest facts with a word.
    pub(super) fn facts_with(&mut self, word: &str) -> Result<Arc<[i64]>, NotFound> {
        if let Some(rows) = self.known.facts_with.get(word) {
            return Ok(Arc::clone(rows));
        }
        let sql = "SELECT rowid FROM memory_index WHERE memory_index MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
        let expression = terms::under_key(&self.key_term(), word, None);
        let rows: Arc<[i64]> = Arc::from(newest_rows(self.connection()?, sql, &expression, NEWEST)?);
        self.known.facts_with.insert(word.to_owned(), Arc::clone(&rows));
        Ok(rows)
    }

    /// A fact.
    pub(super) fn fact(&mut self, key: i64) -> Result<Option<Arc<StoredMemory>>, NotFound> {
        if let Some(fact) = self.known.facts.get(&key) {
            return Ok(fact.clone());
        }
        let found = self
            .connection()?
            .prepare_cached(&format!(
                "SELECT {MEMORY} FROM memories m WHERE m.pk = ?1 AND m.tenant_pk = ?2 AND m.session_key = ?3"
            ))
            .and_then(|mut select| {
                let asked = params![key, self.query.tenant.0, self.query.session_key.as_str()];
                select.query_row(asked, memories::read).optional()
            })
            .translated()?;
        let found = found.map(Arc::new);
        self.known.facts.insert(key, found.clone());
        Ok(found)
    }

    /// The newest messages with a word, without those of one conversation.
    pub(super) fn said_with(&mut self, word: &str, except: Option<ConversationId>) -> Result<SaidList, NotFound> {
        let key = (word.to_owned(), except);
        if let Some(list) = self.known.said_with.get(&key) {
            return Ok(list.clone());
        }
        let connection = self.connection()?;
        let read_at = Instant::now();
        let left_out = except.map(|id| conversation_key(connection, id)).transpose()?.flatten();
        let longest = if except.is_some() { NEWEST } else { NEWEST_BESIDE_OWN };
        let sql = "SELECT rowid FROM search_index WHERE search_index MATCH ?1 ORDER BY rowid DESC LIMIT ?2";
        let expression = terms::under_key(&self.key_term(), word, left_out);
        let found = newest_rows(connection, sql, &expression, longest)?;
        let mut rows = Vec::with_capacity(found.len());
        for key in &found {
            let conversation = match self.known.said.get(key) {
                Some(Some(said)) => Some(said.passage.conversation),
                Some(None) | None => recorded_in(connection, *key)?,
            };
            rows.extend(conversation.map(|conversation| SaidRow { key: *key, conversation }));
        }
        let is_cut = found.len() == longest;
        let list = SaidList { rows: Arc::from(rows), is_cut, indexed: self.indexed, read_at, read_again: None };
        self.known.said_with.insert(key, list.clone());
        Ok(list)
    }

    /// The message with this key, if it may be recalled.
    pub(super) fn said(&mut self, key: i64) -> Result<Option<Arc<StoredPassage>>, NotFound> {
        if let Some(said) = self.known.said.get(&key) {
            return Ok(said.clone());
        }
        let found = self
            .connection()?
            .prepare_cached(
                "SELECT m.id, m.role, m.payload, m.created_at, m.seq, c.id, c.rewinds, m.digest
                 FROM messages m CROSS JOIN sessions s ON s.pk = m.session_pk
                 CROSS JOIN conversations c ON c.pk = s.conversation_pk
                 WHERE m.pk = ?1 AND m.compaction_pk IS NULL AND m.status = 'complete' AND m.role <> 'tool'
                 AND c.tenant_pk = ?2 AND c.session_key = ?3 AND c.deleted = 0",
            )
            .and_then(|mut select| {
                let asked = params![key, self.query.tenant.0, self.query.session_key.as_str()];
                select.query_row(asked, read).optional()
            })
            .translated()?;
        let found = found.flatten().map(Arc::new);
        self.known.said.insert(key, found.clone());
        Ok(found)
    }
}

fn newest_rows(connection: &Connection, sql: &str, expression: &str, limit: usize) -> StoreResult<Vec<i64>> {
    connection
        .prepare_cached(sql)
        .and_then(|mut select| select.query_map(params![expression, limit as i64], |row| row.get(0))?.collect())
        .translated()
}

fn conversation_key(connection: &Connection, id: ConversationId) -> StoreResult<Option<i64>> {
    connection
        .prepare_cached("SELECT pk FROM conversations WHERE id = ?1")
        .and_then(|mut select| select.query_row([id.uuid().as_bytes()], |row| row.get(0)).optional())
        .translated()
}

/// The conversation of a message that may be recalled. `None` if the message is gone or its turn is not recorded.
///
/// A turn says whether it is recorded when it stores its first answer. So nothing of a running turn is recalled, and
/// nothing of a turn whose process died. Turns of other sources have said nothing, and are recorded as usual.
fn recorded_in(connection: &Connection, message: i64) -> StoreResult<Option<ConversationId>> {
    connection
        .prepare_cached(
            "SELECT c.id FROM messages m CROSS JOIN sessions s ON s.pk = m.session_pk
             CROSS JOIN conversations c ON c.pk = s.conversation_pk LEFT JOIN turns t ON t.pk = m.turn_pk
             LEFT JOIN recalls r ON r.turn_pk = m.turn_pk
             WHERE m.pk = ?1 AND coalesce(r.recorded, coalesce(t.state, 'completed') = 'completed'
             AND (c.origin_kind = 'main' OR c.origin_kind = 'branch'))",
        )
        .and_then(|mut select| {
            let id = |row: &Row<'_>| row.get(0).map(|id| ConversationId::from_uuid(Uuid::from_bytes(id)));
            select.query_row([message], id).optional()
        })
        .translated()
}

/// `None` if the message was rewound or says nothing.
fn read(row: &Row<'_>) -> rusqlite::Result<Option<StoredPassage>> {
    let seq = Seq(row.get(4)?);
    if rewinds::read(row, 6)?.hide(seq) {
        return Ok(None);
    }
    let text = text_of(row.get_ref(2)?.as_str()?);
    if text.trim().is_empty() {
        return Ok(None);
    }
    let passage = Passage {
        conversation: ConversationId::from_uuid(rows::uuid(row, 5)?),
        message: MessageId::from_uuid(rows::uuid(row, 0)?),
        role: rows::word(row, 1, Role::parse)?,
        created_at: Timestamp(row.get(3)?),
        text: Arc::from(text),
    };
    Ok(Some(StoredPassage { passage, digest: row.get(7)?, seq }))
}

//! Looks up the rows of a word, facts and messages of one session key.
//!
//! What is known is taken from memory. The rest is read from the database, if there is a connection, and is known then.

use std::sync::Arc;
use std::time::Instant;

use herma_model::{ConversationId, MessageId, Role, Seq, Timestamp};
use herma_store::search::text_of;
use herma_store::{MemoryQuery, Passage, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use super::known::{Known, SaidList, SaidRow, StoredPassage};
use super::rank::{NEWEST, NEWEST_BESIDE_OWN};
use crate::failure::{StoreResult, Translate};
use crate::memories::words::{self, WordScope};
use crate::memories::{self, MEMORY, StoredMemory};
use crate::search::terms;
use crate::{rewinds, rows};

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
        let scope = WordScope::of(self.query.tenant, &self.query.session_key);
        let rows: Arc<[i64]> = Arc::from(words::newest(self.connection()?, scope, word, NEWEST)?);
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
        if let Some(list) = self.known.said_with.get(word).and_then(|lists| lists.get(except)) {
            return Ok(list.clone());
        }
        let connection = self.connection()?;
        let read_at = Instant::now();
        let (found, is_cut) = self.messages_with(connection, word, except)?;
        let mut rows = Vec::with_capacity(found.len());
        for key in &found {
            let conversation = match self.known.recorded.get(key) {
                Some(conversation) => Some(*conversation),
                None => self.recorded_in(connection, *key)?,
            };
            self.known.recorded.extend(conversation.map(|conversation| (*key, conversation)));
            rows.extend(conversation.map(|conversation| SaidRow { key: *key, conversation }));
        }
        let list = SaidList::new(rows, is_cut, self.indexed, read_at);
        self.known.said_with.entry(word.to_owned()).or_default().put(except, list.clone());
        Ok(list)
    }

    /// The newest messages with a word, and whether there may be older ones. Some may be of other keys.
    fn messages_with(
        &self,
        connection: &Connection,
        word: &str,
        except: Option<ConversationId>,
    ) -> StoreResult<(Vec<i64>, bool)> {
        // SQLite steps through all messages of the key to find those with a rare word. So a word is first looked for
        // alone. If only few messages of any key have it, that are all.
        if except.is_none() {
            let found = newest_rows(connection, &terms::with_word(word), NEWEST_BESIDE_OWN)?;
            if found.len() < NEWEST_BESIDE_OWN {
                return Ok((found, false));
            }
        }
        let left_out = except.map(|id| conversation_key(connection, id)).transpose()?.flatten();
        let longest = if except.is_some() { NEWEST } else { NEWEST_BESIDE_OWN };
        let found = newest_rows(connection, &terms::under_key(&self.key_term(), word, left_out), longest)?;
        let is_cut = found.len() == longest;
        Ok((found, is_cut))
    }

    /// The conversation of a message that may be recalled. `None` if the message is gone or of another key, or if its
    /// turn is not recorded.
    ///
    /// A turn says whether it is recorded when it stores its first answer. So nothing of a running turn is recalled,
    /// and nothing of a turn whose process died. Turns of other sources have said nothing, and are recorded as usual.
    fn recorded_in(&self, connection: &Connection, message: i64) -> StoreResult<Option<ConversationId>> {
        connection
            .prepare_cached(
                "SELECT c.id FROM messages m CROSS JOIN sessions s ON s.pk = m.session_pk
                 CROSS JOIN conversations c ON c.pk = s.conversation_pk LEFT JOIN turns t ON t.pk = m.turn_pk
                 LEFT JOIN recalls r ON r.turn_pk = m.turn_pk
                 WHERE m.pk = ?1 AND c.tenant_pk = ?2 AND c.session_key = ?3
                 AND coalesce(r.recorded, coalesce(t.state, 'completed') = 'completed'
                 AND (c.origin_kind = 'main' OR c.origin_kind = 'branch'))",
            )
            .and_then(|mut select| {
                let id = |row: &Row<'_>| row.get(0).map(|id| ConversationId::from_uuid(Uuid::from_bytes(id)));
                let asked = params![message, self.query.tenant.0, self.query.session_key.as_str()];
                select.query_row(asked, id).optional()
            })
            .translated()
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

fn newest_rows(connection: &Connection, expression: &str, limit: usize) -> StoreResult<Vec<i64>> {
    connection
        .prepare_cached("SELECT rowid FROM search_index WHERE search_index MATCH ?1 ORDER BY rowid DESC LIMIT ?2")
        .and_then(|mut select| select.query_map(params![expression, limit as i64], |row| row.get(0))?.collect())
        .translated()
}

fn conversation_key(connection: &Connection, id: ConversationId) -> StoreResult<Option<i64>> {
    connection
        .prepare_cached("SELECT pk FROM conversations WHERE id = ?1")
        .and_then(|mut select| select.query_row([id.uuid().as_bytes()], |row| row.get(0)).optional())
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

//! Looks up the rows of a word, facts and messages of one session key.
//!
//! What is known is taken from memory. The rest is read from the database, if there is a connection, and is known then.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use herma_model::{ConversationId, Memory, MessageId, Role, Seq, Timestamp};
use herma_store::search::text_of;
use herma_store::{MemoryQuery, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::known::{Known, KnownWord, bytes_of_fact};
use super::rank::{NEWEST, NEWEST_BESIDE_OWN};
use super::said::{SAID, Said, SaidList};
use crate::failure::{StoreResult, Translate};
use crate::memories::recorded::RECORDED;
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
    /// How often the index has been written.
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
        if let Some(rows) = self.known.word(word).and_then(|known| known.facts.as_ref()) {
            return Ok(Arc::clone(rows));
        }
        let scope = WordScope::of(self.query.tenant, &self.query.session_key);
        let rows: Arc<[i64]> = Arc::from(words::newest(self.connection()?, scope, word, NEWEST)?);
        self.known.grown += word.len() + size_of_val(&*rows);
        self.known.word_to_fill(word).facts = Some(Arc::clone(&rows));
        Ok(rows)
    }

    /// A fact.
    pub(super) fn fact(&mut self, key: i64) -> Result<Option<Arc<Memory>>, NotFound> {
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
        let found = found.map(|stored| Arc::new(stored.memory));
        self.known.grown += bytes_of_fact(found.as_deref());
        self.known.facts.insert(key, found.clone());
        Ok(found)
    }

    /// Makes sure that the lists of messages are known that a recall ranks: of all conversations, and without the
    /// asking one where that has most of the newest messages.
    pub(super) fn find_said(&mut self) -> Result<(), NotFound> {
        let own = self.query.shown.conversation;
        for word in &self.query.words {
            if self.known.word(word).is_none_or(|known| known.said.is_none()) {
                self.read_said(word, None)?;
            }
            let lacks_others =
                |known: &KnownWord| known.needs_others(&self.query.shown) && known.said_by_others(own).is_none();
            if self.known.word(word).is_some_and(lacks_others) {
                self.read_said(word, Some(own))?;
            }
        }
        Ok(())
    }

    /// Reads the newest messages with a word, without those of one conversation.
    fn read_said(&mut self, word: &str, except: Option<ConversationId>) -> Result<(), NotFound> {
        let connection = self.connection()?;
        let read_at = Instant::now();
        let (found, is_cut) = self.messages_with(connection, word, except)?;
        let (mut rows, mut is_decided) = (Vec::with_capacity(found.len()), true);
        for key in &found {
            if let Some(said) = self.known.said.get(key) {
                rows.push(Arc::clone(said));
                continue;
            }
            match self.said(connection, *key)? {
                Recorded::Yes(said) => {
                    let said = Arc::new(said);
                    self.known.grown += SAID;
                    self.known.said.insert(*key, Arc::clone(&said));
                    rows.push(said);
                }
                Recorded::No => {}
                Recorded::Open => is_decided = false,
            }
        }
        let list = SaidList::new(rows, is_cut, is_decided, self.indexed, read_at);
        self.known.grown += word.len() + size_of_val(&list) + list.rows.len() * size_of::<super::said::SaidRow>();
        self.known.word_to_fill(word).put(except, list);
        Ok(())
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

    /// A message that the index has, if it may be recalled.
    fn said(&self, connection: &Connection, message: i64) -> StoreResult<Recorded> {
        let found = connection
            .prepare_cached(
                "SELECT r.recorded, m.id, m.role, m.created_at, m.seq, c.id, m.digest
                 FROM messages m CROSS JOIN sessions s ON s.pk = m.session_pk
                 CROSS JOIN conversations c ON c.pk = s.conversation_pk LEFT JOIN recalls r ON r.turn_pk = m.turn_pk
                 WHERE m.pk = ?1 AND c.tenant_pk = ?2 AND c.session_key = ?3",
            )
            .and_then(|mut select| {
                let asked = params![message, self.query.tenant.0, self.query.session_key.as_str()];
                select.query_row(asked, |row| Ok((row.get::<_, Option<bool>>(0)?, read_said(message, row)?))).optional()
            })
            .translated()?;
        match found {
            None | Some((Some(false), _)) => Ok(Recorded::No),
            Some((Some(true), said)) => Ok(Recorded::Yes(said)),
            // Few turns under a key have not said it, so only for them their own rows are read too.
            Some((None, said)) => recorded_by_state(connection, said),
        }
    }

    /// The text of a message. `None` if it must not be recalled.
    pub(super) fn text(&mut self, said: &Said) -> Result<Option<Arc<str>>, NotFound> {
        if let Some(text) = said.text.get() {
            return Ok(text.clone());
        }
        let found = self
            .connection()?
            .prepare_cached(
                "SELECT m.payload, m.seq, c.rewinds
                 FROM messages m CROSS JOIN sessions s ON s.pk = m.session_pk
                 CROSS JOIN conversations c ON c.pk = s.conversation_pk
                 WHERE m.pk = ?1 AND m.compaction_pk IS NULL AND m.status = 'complete' AND m.role <> 'tool'
                 AND c.tenant_pk = ?2 AND c.session_key = ?3 AND c.deleted = 0",
            )
            .and_then(|mut select| {
                let asked = params![said.key, self.query.tenant.0, self.query.session_key.as_str()];
                select.query_row(asked, read_text).optional()
            })
            .translated()?;
        let found = found.flatten();
        self.known.grown += found.as_ref().map_or(0, |text| text.len());
        Ok(said.text.get_or_init(|| found).clone())
    }
}

/// Whether the turn of a message is recorded.
enum Recorded {
    Yes(Said),
    /// Neither now nor later, unless the version of the key is raised or the message is indexed again.
    No,
    /// The turn has said nothing about it so far.
    Open,
}

/// A turn says whether it is recorded when it stores its first answer. So nothing of a running turn is recalled, and
/// nothing of a turn whose process died. Turns of other sources have said nothing, and are recorded as usual.
fn recorded_by_state(connection: &Connection, said: Said) -> StoreResult<Recorded> {
    let (is_recorded, is_open): (bool, bool) = connection
        .prepare_cached(&format!(
            "SELECT {RECORDED}, r.recorded IS NULL AND coalesce(t.state, 'completed') <> 'completed'
             FROM messages m CROSS JOIN sessions s ON s.pk = m.session_pk
             CROSS JOIN conversations c ON c.pk = s.conversation_pk LEFT JOIN turns t ON t.pk = m.turn_pk
             LEFT JOIN recalls r ON r.turn_pk = m.turn_pk WHERE m.pk = ?1"
        ))
        .and_then(|mut select| select.query_row([said.key], |row| Ok((row.get(0)?, row.get(1)?))))
        .translated()?;
    Ok(match (is_recorded, is_open) {
        (true, _) => Recorded::Yes(said),
        (false, true) => Recorded::Open,
        (false, false) => Recorded::No,
    })
}

fn read_said(key: i64, row: &Row<'_>) -> rusqlite::Result<Said> {
    Ok(Said {
        key,
        message: MessageId::from_uuid(rows::uuid(row, 1)?),
        role: rows::word(row, 2, Role::parse)?,
        created_at: Timestamp(row.get(3)?),
        seq: Seq(row.get(4)?),
        conversation: ConversationId::from_uuid(rows::uuid(row, 5)?),
        digest: row.get(6)?,
        text: OnceLock::new(),
    })
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
fn read_text(row: &Row<'_>) -> rusqlite::Result<Option<Arc<str>>> {
    if rewinds::read(row, 2)?.hide(Seq(row.get(1)?)) {
        return Ok(None);
    }
    let text = text_of(row.get_ref(0)?.as_str()?);
    Ok(if text.trim().is_empty() { None } else { Some(Arc::from(text)) })
}

//! What was imported before.

use std::sync::Arc;

use herma_model::{MessageId, SessionId};
use herma_store::{Import, ImportedConversation};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::rows;

/// A conversation that was imported before.
pub(super) struct KnownConversation {
    pub(super) conversation: i64,
    /// The digest of what was imported.
    pub(super) content: [u8; 16],
    /// The version it had after the import.
    pub(super) version: i64,
    /// Its sessions, in order.
    pub(super) sessions: Vec<KnownSession>,
}

/// A session that was imported before.
pub(super) struct KnownSession {
    pub(super) key: i64,
    /// Its id here.
    pub(super) id: SessionId,
    origin: Arc<str>,
}

impl KnownConversation {
    /// Whether its sessions are the first ones of the new data.
    pub(super) fn began_as(&self, new: &ImportedConversation) -> bool {
        self.sessions.len() <= new.sessions.len()
            && self.sessions.iter().zip(&new.sessions).all(|(known, new)| known.origin == new.origin)
    }
}

/// What the sessions of a conversation became in earlier imports.
pub(super) enum EarlierImport {
    /// None was imported before.
    Nothing,
    /// All are in this conversation.
    One(KnownConversation),
    /// They are in several conversations.
    Several,
}

/// Finds a conversation by the sessions it consists of.
pub(super) fn find(connection: &Connection, import: &Import, new: &ImportedConversation) -> StoreResult<EarlierImport> {
    let mut select = connection
        .prepare_cached(
            "SELECT conversation_pk, content, version FROM imports WHERE tenant_pk = ?1 AND file = ?2 AND origin = ?3",
        )
        .translated()?;
    let mut known: Option<KnownConversation> = None;
    for session in &new.sessions {
        let found: Option<(i64, [u8; 16], i64)> = select
            .query_row(params![import.tenant.0, import.file, session.origin], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()
            .translated()?;
        match (found, &known) {
            (Some((conversation, ..)), Some(known)) if known.conversation != conversation => {
                return Ok(EarlierImport::Several);
            }
            (Some((conversation, content, version)), None) => {
                let sessions = sessions(connection, conversation)?;
                known = Some(KnownConversation { conversation, content, version, sessions });
            }
            _ => {}
        }
    }
    Ok(known.map_or(EarlierImport::Nothing, EarlierImport::One))
}

fn sessions(connection: &Connection, conversation: i64) -> StoreResult<Vec<KnownSession>> {
    connection
        .prepare_cached(
            "SELECT i.session_pk, s.id, i.origin FROM imports i JOIN sessions s ON s.pk = i.session_pk
             WHERE i.conversation_pk = ?1 ORDER BY i.session_pk",
        )
        .and_then(|mut select| {
            select
                .query_map([conversation], |row| {
                    let id = SessionId::from_name(row.get_ref(1)?.as_str()?);
                    Ok(KnownSession { key: row.get(0)?, id, origin: rows::text(row, 2)? })
                })?
                .collect()
        })
        .translated()
}

/// Whether a message of it is pinned.
pub(super) fn is_pinned(connection: &Connection, conversation: i64) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT 1 FROM pins WHERE conversation_pk = ?1")
        .and_then(|mut select| select.exists([conversation]))
        .translated()
}

/// A stored entry.
pub(super) struct StoredEntry {
    pub(super) session: i64,
    pub(super) seq: i64,
    pub(super) id: MessageId,
}

/// All entries of a conversation, in order.
pub(super) fn stored(connection: &Connection, known: &KnownConversation) -> StoreResult<Vec<StoredEntry>> {
    connection
        .prepare_cached(
            "SELECT m.session_pk, m.seq, m.id FROM sessions s JOIN messages m ON m.session_pk = s.pk
             WHERE s.conversation_pk = ?1
             ORDER BY s.pk, m.seq",
        )
        .and_then(|mut select| {
            select
                .query_map([known.conversation], |row| {
                    let id = MessageId::from_uuid(rows::uuid(row, 2)?);
                    Ok(StoredEntry { session: row.get(0)?, seq: row.get(1)?, id })
                })?
                .collect()
        })
        .translated()
}

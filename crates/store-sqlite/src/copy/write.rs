//! Writes the pieces of a conversation that is restored, inherited or imported.
//!
//! What a branch here inherits of a deleted conversation is still stored. It is not written again, but must be the
//! same.

mod ledger;
mod turns;

use std::collections::HashMap;

use herma_model::copy::{Copied, CopiedBase, CopiedMessage, CopiedParent, CopiedSession};
use herma_model::{CompactionId, ConversationId, EndReason, NewMessage, ParentRelation, SessionId, TenantId, TurnId};
use herma_store::RestoreOutcome;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::restore::{Halt, RestoreResult, broken};
use crate::failure::{StoreResult, Translate};
use crate::lineage::{Lineage, Segment};
use crate::tables::{Names, SessionColumns, chain, insert, insert_message, set_base};
use crate::{histories, snapshot};

/// What was written so far, by the ids that pieces use.
pub(crate) struct PieceWriter<'a> {
    pub(super) connection: &'a Connection,
    pub(super) tenant: TenantId,
    pub(super) conversation: i64,
    pub(super) id: ConversationId,
    /// All messages up to this place are stored.
    reach: i64,
    /// The keys of the sessions that pieces may name.
    pub(crate) sessions: HashMap<SessionId, i64>,
    turns: HashMap<TurnId, i64>,
    summaries: HashMap<CompactionId, i64>,
}

impl<'a> PieceWriter<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        tenant: TenantId,
        conversation: i64,
        id: ConversationId,
        reach: i64,
    ) -> Self {
        let (sessions, turns, summaries) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { connection, tenant, conversation, id, reach, sessions, turns, summaries }
    }

    /// Writes pieces after what is stored of the conversation. Returns the parts of its transcript.
    pub(crate) fn write<T>(&mut self, copied: &Copied<T>) -> RestoreResult<Lineage> {
        for session in &copied.sessions {
            self.session(session)?;
        }
        chain(self.connection, self.conversation)?;
        self.sources()?;
        for turn in &copied.turns {
            self.turn(turn)?;
        }
        for message in &copied.messages {
            self.message(message)?;
        }
        let state = snapshot::load(self.connection, self.conversation)?;
        let lineage = Lineage::after(self.connection, &state, 0)?;
        self.note_answer(&lineage)?;
        for compaction in &copied.compactions {
            self.compaction(compaction, &lineage)?;
        }
        self.undone(&copied.compactions)?;
        for session in &copied.sessions {
            if let Some(compaction) = session.base_compaction {
                self.set_base(&session.id, compaction)?;
            }
        }
        histories::compute(self.connection, self.tenant, self.conversation)?;
        Ok(lineage)
    }

    pub(crate) const fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// The names that every conversation has.
    pub(crate) fn names(&self) -> Names<'a> {
        Names { connection: self.connection, tenant: self.tenant, conversation: self.conversation }
    }

    fn session(&mut self, session: &CopiedSession) -> RestoreResult<()> {
        let parent = session.parent.as_ref();
        let parent_pk = parent.map_or(Ok(None), |parent| self.parent(parent))?;
        let missing = parent.and_then(|parent| parent.conversation_id).filter(|_| parent_pk.is_none());
        let base = session.base.as_ref();
        let columns = SessionColumns {
            tenant_pk: self.tenant.0,
            conversation_pk: self.conversation,
            id: session.id.as_str(),
            kind: session.kind.as_str(),
            depth: session.depth,
            parent_pk,
            parent_id: parent.map(|parent| parent.session_id.as_str()),
            parent_relation: parent.map(|parent| parent.relation.as_str()),
            missing_parent: missing.map(|id| id.uuid().into_bytes()),
            creator_kind: session.creator_kind.as_str(),
            reason: session.reason.as_deref(),
            base_session_pk: base.map(|base| self.base(base)).transpose()?,
            base_seq: base.map(|base| base.place.0),
            created_at: session.created_at.0,
            ended_at: session.ended_at.map(|at| at.0),
            end_reason: session.end_reason.map(EndReason::as_str),
            ..SessionColumns::default()
        };
        let key = match self.stored_session(&columns)? {
            Some(kept) => kept,
            None => insert(self.connection, &columns)?,
        };
        if self.sessions.insert(session.id.clone(), key).is_some() {
            return broken(format!("session {} comes twice", session.id));
        }
        Ok(())
    }

    /// The row of a session that is stored because a branch inherits from it. Restores what its deletion cleared.
    fn stored_session(&self, session: &SessionColumns<'_>) -> RestoreResult<Option<i64>> {
        let kept: Option<(i64, Option<String>)> = self
            .connection
            .prepare_cached("SELECT pk, parent_id FROM sessions WHERE conversation_pk = ?1 AND id = ?2")
            .and_then(|mut select| {
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                select.query_row(params![self.conversation, session.id], read).optional()
            })
            .translated()?;
        let Some((key, parent)) = kept else { return Ok(None) };
        if parent.as_deref() != session.parent_id {
            return Err(Halt::Left(RestoreOutcome::OtherSource(self.id)));
        }
        let SessionColumns { parent_pk, missing_parent, ended_at, end_reason, .. } = session;
        self.connection
            .prepare_cached(
                "UPDATE sessions SET parent_pk = ?2, missing_parent = ?3, ended_at = ?4, end_reason = ?5 WHERE pk = ?1",
            )
            .and_then(|mut update| update.execute(params![key, parent_pk, missing_parent, ended_at, end_reason]))
            .translated()?;
        Ok(Some(key))
    }

    /// The row of a parent, if it is stored here. Another session with the same name does not count.
    fn parent(&self, parent: &CopiedParent) -> RestoreResult<Option<i64>> {
        match parent.conversation_id {
            Some(conversation) => Ok(self.session_of(conversation, &parent.session_id, "AND c.deleted = 0")?),
            None if parent.relation == ParentRelation::Continuation => {
                Ok(self.sessions.get(&parent.session_id).copied())
            }
            None => Ok(None),
        }
    }

    /// The row of the session that another one continues.
    fn base(&self, base: &CopiedBase) -> RestoreResult<i64> {
        match base.conversation_id {
            Some(conversation) => {
                let found = self.session_of(conversation, &base.session_id, "")?;
                found.ok_or(Halt::Left(RestoreOutcome::NoSource(conversation)))
            }
            None => self.own_session(&base.session_id),
        }
    }

    fn session_of(&self, conversation: ConversationId, session: &SessionId, and: &str) -> StoreResult<Option<i64>> {
        self.connection
            .prepare_cached(&format!(
                "SELECT s.pk FROM conversations c JOIN sessions s ON s.conversation_pk = c.pk
                 WHERE c.id = ?1 AND c.tenant_pk = ?2 AND s.id = ?3 {and}"
            ))
            .and_then(|mut select| {
                let id = conversation.uuid();
                select.query_row(params![id.as_bytes(), self.tenant.0, session.as_str()], |row| row.get(0)).optional()
            })
            .translated()
    }

    /// The row of a session of this conversation.
    pub(crate) fn own_session(&self, id: &SessionId) -> RestoreResult<i64> {
        self.sessions.get(id).map_or_else(|| broken(format!("there is no session {id}")), |key| Ok(*key))
    }

    /// This conversation and those it inherits from. An error if it would inherit from itself.
    fn sources(&self) -> RestoreResult<Vec<i64>> {
        let mut sources = vec![self.conversation];
        let mut inheriting_branch = self.conversation;
        while let Some(source) = Segment::inherited(self.connection, inheriting_branch)? {
            inheriting_branch = source.conversation;
            if sources.contains(&inheriting_branch) {
                return broken("it inherits from itself".to_owned());
            }
            sources.push(inheriting_branch);
        }
        Ok(sources)
    }

    /// The row of a stored turn or compaction, and its conversation.
    fn stored(&self, table: &str, id: Uuid) -> StoreResult<Option<(i64, i64)>> {
        self.connection
            .prepare_cached(&format!("SELECT pk, conversation_pk FROM {table} WHERE id = ?1"))
            .and_then(|mut select| {
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                select.query_row([id.as_bytes()], read).optional()
            })
            .translated()
    }

    fn message(&mut self, message: &CopiedMessage) -> RestoreResult<()> {
        let session = self.own_session(&message.session_id)?;
        let (id, place) = (message.id, message.place.0);
        let key = if place <= self.reach {
            self.stored_message(session, message)?
        } else {
            let turn = match (message.turn_id, message.compaction_id) {
                (Some(turn), None) => self.turns.get(&turn).copied(),
                (None, Some(_)) => Some(0),
                _ => None,
            };
            let Some(turn) = turn else { return broken(format!("message {id} is no turn's and no compaction's")) };
            let new = NewMessage { id, said: message.said.clone() };
            insert_message(self.connection, session, place, turn, message.attempt, &new, message.created_at)?
        };
        if let Some(compaction) = message.compaction_id {
            self.summaries.insert(compaction, key);
        }
        Ok(())
    }

    /// A message that is stored because a branch inherits it.
    fn stored_message(&self, session: i64, message: &CopiedMessage) -> RestoreResult<i64> {
        let kept: Option<i64> = self
            .connection
            .prepare_cached("SELECT pk FROM messages WHERE session_pk = ?1 AND seq = ?2 AND id = ?3 AND digest = ?4")
            .and_then(|mut select| {
                let id = message.id.uuid();
                let place = params![session, message.place.0, id.as_bytes(), &message.said.digest.0];
                select.query_row(place, |row| row.get(0)).optional()
            })
            .translated()?;
        kept.ok_or(Halt::Left(RestoreOutcome::OtherSource(self.id)))
    }

    fn note_answer(&self, lineage: &Lineage) -> StoreResult<()> {
        let answered = lineage.has_answer(self.connection)?;
        self.connection
            .prepare_cached("UPDATE conversations SET answered = ?2 WHERE pk = ?1")
            .and_then(|mut update| update.execute(params![self.conversation, answered]))
            .map(drop)
            .translated()
    }

    /// Makes a compaction the base of a session of this conversation.
    pub(crate) fn set_base(&self, session: &SessionId, compaction: CompactionId) -> RestoreResult<()> {
        let compaction = self.compaction_key(compaction)?;
        Ok(set_base(self.connection, self.own_session(session)?, Some(compaction))?)
    }
}

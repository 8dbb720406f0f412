//! Writing a conversation that comes back, or what is inherited of one.
//!
//! What a branch here inherits of it may be there already: that is not written again, and must be the same.

mod ledger;
mod turns;

use std::collections::HashMap;

use herma_model::alias::Namespace;
use herma_model::copy::{
    Copied, CopiedBase, CopiedConversation, CopiedMessage, CopiedName, CopiedParent, CopiedSession, CopiedSource,
};
use herma_model::{
    CompactionId, ConversationId, EndReason, NewMessage, ParentRelation, SessionId, SessionKey, TenantId, Timestamp,
    TurnId,
};
use herma_store::RestoreOutcome;
use rusqlite::{Connection, OptionalExtension, params};

use super::restore::{Attempt, Halt, broken};
use crate::commit::insert_message;
use crate::failure::{Outcome, Translate};
use crate::lineage::{Lineage, Segment};
use crate::{conversation, rows, snapshot};

/// Writes the row of a conversation, over what was kept of it if it was deleted.
pub(super) fn whole_row(
    connection: &Connection,
    tenant: TenantId,
    what: &CopiedConversation,
    kept: Option<i64>,
    now: Timestamp,
) -> Outcome<i64> {
    // Whoever has read another life of it must not take this for the same: the version is above all that counting can have reached.
    connection
        .prepare_cached(
            "INSERT INTO conversations (pk, tenant_pk, id, head_pk, root_pk, origin_kind, session_key, source, title, cwd, metadata, system, archived, version,
             fence, next_seq, message_count, turn_count, input_tokens, output_tokens, cached_tokens, reasoning_tokens, compaction_count, compaction_mode,
             created_at, updated_at, ended_at, end_reason, counted_seq, counted_tokens, held_back, rewrites, echoing, nameless)
             VALUES (?1, ?2, ?3, 0, 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28,
             ?29, ?30, ?31)
             ON CONFLICT (id) DO UPDATE SET deleted = 0, session_key = excluded.session_key, source = excluded.source, title = excluded.title,
             cwd = excluded.cwd, metadata = excluded.metadata, system = excluded.system, archived = excluded.archived, version = excluded.version,
             next_seq = excluded.next_seq, message_count = excluded.message_count, turn_count = excluded.turn_count, input_tokens = excluded.input_tokens,
             output_tokens = excluded.output_tokens, cached_tokens = excluded.cached_tokens, reasoning_tokens = excluded.reasoning_tokens,
             compaction_count = excluded.compaction_count, compaction_mode = excluded.compaction_mode, created_at = excluded.created_at,
             updated_at = excluded.updated_at, ended_at = excluded.ended_at, end_reason = excluded.end_reason, counted_seq = excluded.counted_seq,
             counted_tokens = excluded.counted_tokens, held_back = excluded.held_back, rewrites = excluded.rewrites,
             echoing = excluded.echoing, nameless = excluded.nameless RETURNING pk",
        )
        .and_then(|mut insert| {
            insert.query_row(
                params![
                    kept,
                    tenant.0,
                    what.id.uuid().as_bytes(),
                    what.origin_kind.as_str(),
                    what.session_key.as_ref().map(SessionKey::as_str),
                    what.source,
                    what.title,
                    what.cwd,
                    what.metadata,
                    rows::system_to(&what.system),
                    what.archived,
                    now.0,
                    what.next_place.0,
                    what.message_count as i64,
                    what.turn_count as i64,
                    what.usage.input as i64,
                    what.usage.output as i64,
                    what.usage.cached as i64,
                    what.usage.reasoning as i64,
                    what.compaction_count,
                    what.compaction_mode.map(|mode| mode.as_str()),
                    what.created_at.0,
                    what.updated_at.0,
                    what.ended_at.map(|at| at.0),
                    what.end_reason.map(EndReason::as_str),
                    what.counted.map(|counted| counted.place.0),
                    what.counted.map(|counted| counted.tokens as i64),
                    what.held_back,
                    what.rewrites,
                    what.title_is_first_words,
                    what.nameless
                ],
                |row| row.get(0),
            )
        })
        .translated()
}

/// Writes the row of a conversation that is there for a branch alone.
pub(super) fn described(connection: &Connection, tenant: TenantId, what: &CopiedSource) -> Outcome<i64> {
    connection
        .prepare_cached(
            "INSERT INTO conversations (tenant_pk, id, head_pk, root_pk, origin_kind, source, version, fence, next_seq, created_at, updated_at, deleted)
             VALUES (?1, ?2, 0, 0, ?3, ?4, 0, 0, ?5, ?6, ?6, 1)",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                tenant.0,
                what.id.uuid().as_bytes(),
                what.origin_kind.as_str(),
                what.source,
                what.through.0 + 1,
                what.created_at.0
            ])
        })
        .translated()?;
    Ok(connection.last_insert_rowid())
}

/// What is written so far, by what the pieces call it.
pub(super) struct Writing<'a> {
    pub(super) connection: &'a Connection,
    pub(super) tenant: TenantId,
    pub(super) conversation: i64,
    id: ConversationId,
    /// Up to this place everything is there.
    reach: i64,
    pub(super) sessions: HashMap<SessionId, i64>,
    pub(super) turns: HashMap<TurnId, i64>,
    pub(super) summaries: HashMap<CompactionId, i64>,
}

impl<'a> Writing<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        tenant: TenantId,
        conversation: i64,
        id: ConversationId,
        reach: i64,
    ) -> Self {
        let (sessions, turns, summaries) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { connection, tenant, conversation, id, reach, sessions, turns, summaries }
    }

    /// Writes all that belongs to a conversation, and says where it lies.
    pub(super) fn write<T>(&mut self, copied: &Copied<T>) -> Attempt<Lineage> {
        for session in &copied.sessions {
            self.session(session)?;
        }
        self.chain(&copied.sessions)?;
        for turn in &copied.turns {
            self.turn(turn)?;
        }
        for message in &copied.messages {
            self.message(message)?;
        }
        let state = snapshot::load(self.connection, self.conversation)?;
        let lineage = Lineage::after(self.connection, &state, 0)?;
        let answered = lineage.has_answer(self.connection)?;
        self.connection
            .prepare_cached("UPDATE conversations SET answered = ?2 WHERE pk = ?1")
            .and_then(|mut update| update.execute(params![self.conversation, answered]))
            .translated()?;
        for compaction in &copied.compactions {
            self.compaction(compaction, &lineage)?;
        }
        self.undone(&copied.compactions)?;
        self.grounds(&copied.sessions)?;
        Ok(lineage)
    }

    fn session(&mut self, session: &CopiedSession) -> Attempt<()> {
        let parent = session.parent.as_ref();
        let there = self.kept_session(session)?;
        let parent_key = parent.map_or(Ok(None), |parent| self.parent(parent))?;
        let missing = parent.and_then(|parent| parent.conversation_id).filter(|_| parent_key.is_none());
        let base = session.base.as_ref();
        let base_key = base.map(|base| self.base(base)).transpose()?;
        let key = self
            .connection
            .prepare_cached(
                "INSERT INTO sessions (pk, tenant_pk, conversation_pk, id, kind, depth, parent_pk, parent_id, parent_relation, creator_kind, reason,
                 base_session_pk, base_seq, created_at, ended_at, end_reason, missing_parent)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
                 ON CONFLICT (pk) DO UPDATE SET parent_pk = excluded.parent_pk, missing_parent = excluded.missing_parent, ended_at = excluded.ended_at, end_reason = excluded.end_reason RETURNING pk",
            )
            .and_then(|mut insert| {
                insert.query_row(
                    params![
                        there,
                        self.tenant.0,
                        self.conversation,
                        session.id.as_str(),
                        session.kind.as_str(),
                        session.depth,
                        parent_key,
                        parent.map(|parent| parent.session_id.as_str()),
                        parent.map(|parent| parent.relation.as_str()),
                        session.creator_kind.as_str(),
                        session.reason,
                        base_key,
                        base.map(|base| base.place.0),
                        session.created_at.0,
                        session.ended_at.map(|at| at.0),
                        session.end_reason.map(EndReason::as_str),
                        missing.map(|id| id.uuid().into_bytes())
                    ],
                    |row| row.get(0),
                )
            })
            .translated()?;
        if self.sessions.insert(session.id.clone(), key).is_some() {
            return broken(format!("session {} comes twice", session.id));
        }
        Ok(())
    }

    /// The row of a session that is there, for a branch inherits what was said in it.
    fn kept_session(&self, session: &CopiedSession) -> Attempt<Option<i64>> {
        let kept: Option<(i64, Option<String>)> = self
            .connection
            .prepare_cached("SELECT pk, parent_id FROM sessions WHERE conversation_pk = ?1 AND id = ?2")
            .and_then(|mut select| {
                let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                select.query_row(params![self.conversation, session.id.as_str()], read).optional()
            })
            .translated()?;
        let parent = session.parent.as_ref().map(|parent| parent.session_id.as_str());
        match kept {
            Some((_, kept)) if kept.as_deref() != parent => Err(Halt::Left(RestoreOutcome::OtherSource(self.id))),
            kept => Ok(kept.map(|(key, _)| key)),
        }
    }

    /// The row of a parent, if that is here: another session of its name is not taken for it.
    fn parent(&self, parent: &CopiedParent) -> Attempt<Option<i64>> {
        match parent.conversation_id {
            Some(conversation) => Ok(self.session_of(conversation, &parent.session_id, "AND c.deleted = 0")?),
            None if parent.relation == ParentRelation::Continuation => {
                Ok(self.sessions.get(&parent.session_id).copied())
            }
            None => Ok(None),
        }
    }

    /// The row of the session after which another one goes on.
    fn base(&self, base: &CopiedBase) -> Attempt<i64> {
        match base.conversation_id {
            Some(conversation) => {
                let found = self.session_of(conversation, &base.session_id, "")?;
                found.ok_or(Halt::Left(RestoreOutcome::NoSource(conversation)))
            }
            None => self.own_session(&base.session_id),
        }
    }

    fn session_of(&self, conversation: ConversationId, session: &SessionId, and: &str) -> Outcome<Option<i64>> {
        self.connection
            .prepare_cached(&format!(
                "SELECT s.pk FROM conversations c JOIN sessions s ON s.conversation_pk = c.pk WHERE c.id = ?1 AND c.tenant_pk = ?2 AND s.id = ?3 {and}"
            ))
            .and_then(|mut select| {
                let id = conversation.uuid();
                select.query_row(params![id.as_bytes(), self.tenant.0, session.as_str()], |row| row.get(0)).optional()
            })
            .translated()
    }

    /// A session of this conversation.
    pub(super) fn own_session(&self, id: &SessionId) -> Attempt<i64> {
        self.sessions.get(id).map_or_else(|| broken(format!("there is no session {id}")), |key| Ok(*key))
    }

    /// Makes the sessions a chain from the first to the head. More of it may be there for another branch.
    fn chain(&self, sessions: &[CopiedSession]) -> Attempt<()> {
        let key = |session: &CopiedSession| self.sessions.get(&session.id).copied();
        let Some(root) = sessions.first().and_then(key) else { return broken("it has no session".to_owned()) };
        let previous = sessions.len().checked_sub(2).and_then(|at| key(&sessions[at]));
        self.connection
            .prepare_cached(
                "UPDATE conversations SET root_pk = ?2, head_pk = (SELECT max(pk) FROM sessions WHERE conversation_pk = ?1), previous_pk = ?3,
                 parent_pk = (SELECT p.conversation_pk FROM sessions r JOIN sessions p ON p.pk = r.parent_pk WHERE r.pk = ?2) WHERE pk = ?1",
            )
            .and_then(|mut update| update.execute(params![self.conversation, root, previous]))
            .translated()?;
        self.sources().map(drop)
    }

    /// This conversation and those it inherits from, which can never be itself.
    pub(super) fn sources(&self) -> Attempt<Vec<i64>> {
        let mut sources = vec![self.conversation];
        let mut heir = self.conversation;
        while let Some(source) = Segment::inherited(self.connection, heir)? {
            heir = source.conversation;
            if sources.contains(&heir) {
                return broken("it inherits from itself".to_owned());
            }
            sources.push(heir);
        }
        Ok(sources)
    }

    fn message(&mut self, message: &CopiedMessage) -> Attempt<()> {
        let session = self.own_session(&message.session_id)?;
        let (id, place) = (message.id, message.place.0);
        let key = if place <= self.reach {
            self.kept(session, message)?
        } else {
            let turn = match (message.turn_id, message.compaction_id) {
                (Some(turn), None) => self.turns.get(&turn).copied(),
                (None, Some(_)) => Some(0),
                _ => None,
            };
            let Some(turn) = turn else { return broken(format!("message {id} is no turn's and no compaction's")) };
            let new = NewMessage { id, said: message.said.clone() };
            insert_message(self.connection, session, place, turn, message.attempt, &new, message.created_at)?;
            self.connection.last_insert_rowid()
        };
        if let Some(compaction) = message.compaction_id {
            self.summaries.insert(compaction, key);
        }
        Ok(())
    }

    /// A message that is there, for a branch inherits it.
    fn kept(&self, session: i64, message: &CopiedMessage) -> Attempt<i64> {
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

    /// Has every session stand on its compaction.
    fn grounds(&self, sessions: &[CopiedSession]) -> Attempt<()> {
        for session in sessions {
            let Some(compaction) = session.base_compaction else { continue };
            let key = self.own_session(&session.id)?;
            let ground = self.compaction_key(compaction)?;
            crate::compact::stand_on(self.connection, key, Some(ground))?;
        }
        Ok(())
    }

    /// Gives a conversation its names.
    pub(super) fn name(&self, further: &[CopiedName]) -> Attempt<()> {
        let give = |namespace: Namespace, name: &str, session| {
            conversation::alias(self.connection, self.tenant.0, namespace.as_str(), name, self.conversation, session)
        };
        give(Namespace::Session, &self.id.to_string(), None)?;
        for (id, key) in &self.sessions {
            give(Namespace::Session, id.as_str(), Some(*key))?;
        }
        for CopiedName { namespace, name } in further {
            give(*namespace, name.as_str(), None)?;
        }
        Ok(())
    }
}

//! Writing what is brought.

use herma_model::provenance::CompactionMode;
use herma_model::{ConversationId, EndReason, SessionId, SessionKey};
use herma_store::{Import, ImportedConversation, StoreError};
use rusqlite::{Connection, params};

use super::known::{Known, Stored};
use super::pieces::Pieces;
use super::plan::{Plan, What};
use crate::copy::{Halt, PieceWriter};
use crate::failure::{Outcome, Translate};
use crate::tables::{ConversationColumns, insert};

/// What is written, and where.
pub(super) struct Target<'a> {
    pub(super) import: &'a Import,
    pub(super) new: &'a ImportedConversation,
    pub(super) plan: &'a Plan<'a>,
    pub(super) conversation: i64,
    pub(super) id: ConversationId,
}

/// Makes a conversation in which nothing was said.
pub(super) fn conversation(connection: &Connection, import: &Import, new: &ImportedConversation) -> Outcome<i64> {
    let columns = ConversationColumns {
        tenant_pk: import.tenant.0,
        id: new.id.uuid().into_bytes(),
        origin_kind: new.kind.as_str(),
        session_key: new.session_key.as_ref().map(SessionKey::as_str),
        source: &new.source,
        title: new.title.as_deref(),
        cwd: new.cwd.as_deref(),
        metadata: new.metadata.as_deref(),
        archived: new.archived,
        created_at: new.sessions.first().map_or(import.now, |first| first.created_at).0,
        updated_at: new.updated_at.0,
        ..ConversationColumns::default()
    };
    insert(connection, &columns)
}

impl Target<'_> {
    /// Writes everything into a conversation that is empty.
    pub(super) fn all(&self, connection: &Connection) -> Outcome<()> {
        let mut writer = PieceWriter::new(connection, self.import.tenant, self.conversation, self.id, 0);
        writer.names().of_conversation(self.id)?;
        self.write(&mut writer, &[], 0)
    }

    /// Writes what is not stored yet, and returns how many messages that were.
    pub(super) fn rest(&self, connection: &Connection, stored: &[Stored], known: &Known) -> Outcome<u64> {
        let mut writer = PieceWriter::new(connection, self.import.tenant, self.conversation, self.id, 0);
        writer.sessions = known.sessions.iter().map(|session| (session.id.clone(), session.key)).collect();
        let ids: Vec<SessionId> = known.sessions.iter().map(|session| session.id.clone()).collect();
        self.write(&mut writer, &ids, stored.len())?;
        let entries = &self.plan.entries[stored.len()..];
        Ok(entries.iter().filter(|placed| matches!(placed.what, What::Said(..))).count() as u64)
    }

    /// Writes all entries from one on, and brings the conversation's row up to date.
    fn write(&self, writer: &mut PieceWriter<'_>, stored: &[SessionId], from: usize) -> Outcome<()> {
        let pieces = Pieces::of(self.new, self.plan, stored, from);
        writer.write(&pieces.copied).map_err(unwritten)?;
        for session in &pieces.copied.sessions {
            writer.names().of_session(&session.id, writer.own_session(&session.id).map_err(unwritten)?)?;
        }
        if let Some(old_head) = stored.len().checked_sub(1) {
            self.go_on_from(writer, &pieces, old_head)?;
        }
        self.update(writer.connection(), pieces.compactions)?;
        self.remember(writer, &pieces.sessions)
    }

    /// The session that was the head has ended if another follows it, and may have been compacted in place.
    fn go_on_from(&self, writer: &PieceWriter<'_>, pieces: &Pieces, old_head: usize) -> Outcome<()> {
        let id = &pieces.sessions[old_head];
        if let Some(compaction) = pieces.bases[old_head] {
            writer.stand_on(id, compaction).map_err(unwritten)?;
        }
        if pieces.copied.sessions.is_empty() {
            return Ok(());
        }
        let ended_at = self.new.sessions[old_head].ended_at.0;
        let key = writer.own_session(id).map_err(unwritten)?;
        let set = params![key, ended_at, EndReason::Compression.as_str()];
        writer
            .connection()
            .execute("UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE pk = ?1", set)
            .map(drop)
            .translated()
    }

    /// Brings the counts of the conversation up to date. A title that it got here stays.
    fn update(&self, connection: &Connection, compactions: (u32, Option<CompactionMode>)) -> Outcome<()> {
        let Target { new, plan, conversation, .. } = self;
        let said = plan.entries.iter().filter(|placed| matches!(placed.what, What::Said(..))).count();
        connection
            .prepare_cached(
                "UPDATE conversations SET next_seq = ?2, message_count = ?3, turn_count = ?4, input_tokens = ?5,
                 output_tokens = ?6, cached_tokens = ?7, reasoning_tokens = ?8, compaction_count = ?9, compaction_mode = ?10,
                 updated_at = max(updated_at, ?11), title = iif(nameless, NULL, coalesce(title, ?12)),
                 version = version + 1 WHERE pk = ?1",
            )
            .and_then(|mut update| {
                update.execute(params![
                    conversation,
                    plan.entries.len() as i64 + 1,
                    said as i64,
                    plan.turns.len() as i64,
                    new.usage.input as i64,
                    new.usage.output as i64,
                    new.usage.cached as i64,
                    new.usage.reasoning as i64,
                    compactions.0,
                    compactions.1.map(CompactionMode::as_str),
                    new.updated_at.0,
                    new.title
                ])
            })
            .map(drop)
            .translated()
    }

    /// Remembers what was brought, and at which version.
    fn remember(&self, writer: &PieceWriter<'_>, sessions: &[SessionId]) -> Outcome<()> {
        let Target { import, new, plan, conversation, .. } = self;
        let mut insert = writer
            .connection()
            .prepare_cached(
                "INSERT INTO imports (tenant_pk, file, origin, conversation_pk, session_pk, content, version)
                 SELECT ?1, ?2, ?3, pk, ?5, ?6, version FROM conversations WHERE pk = ?4
                 ON CONFLICT DO UPDATE SET content = excluded.content, version = excluded.version",
            )
            .translated()?;
        for (session, id) in new.sessions.iter().zip(sessions) {
            let (tenant, key) = (import.tenant.0, writer.own_session(id).map_err(unwritten)?);
            let origin = params![tenant, import.file, session.origin, conversation, key, &plan.content];
            insert.execute(origin).translated()?;
        }
        Ok(())
    }
}

/// All ids and places follow from the plan, so pieces can only be refused if the store already has one of the ids.
fn unwritten(halt: Halt) -> StoreError {
    match halt {
        Halt::Failed(error) => error,
        Halt::Left(outcome) => StoreError::Failed(format!("an imported conversation cannot be written: {outcome:?}")),
    }
}

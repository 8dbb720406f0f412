//! Writes imported conversations.

use herma_model::copy::{Copied, CopiedSession};
use herma_model::{ConversationId, EndReason, SessionKey};
use herma_store::{Import, ImportedConversation, StoreError};
use rusqlite::{Connection, params};

use super::known::{KnownConversation, StoredEntry};
use super::plan::Plan;
use crate::copy::{Halt, PieceWriter};
use crate::failure::{StoreResult, Translate};
use crate::tables::{ConversationColumns, insert};

/// What is written, and where.
pub(super) struct ImportTarget<'a> {
    pub(super) import: &'a Import,
    pub(super) new: &'a ImportedConversation,
    pub(super) plan: &'a Plan,
    pub(super) conversation: i64,
    pub(super) id: ConversationId,
}

/// Makes the row of a conversation without messages.
pub(super) fn conversation(connection: &Connection, import: &Import, new: &ImportedConversation) -> StoreResult<i64> {
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

impl ImportTarget<'_> {
    /// Writes everything into an empty conversation.
    pub(super) fn all(&self, connection: &Connection) -> StoreResult<()> {
        let mut writer = self.writer(connection);
        writer.names().of_conversation(self.id)?;
        self.write(&mut writer, &self.plan.whole)
    }

    /// Writes what is not stored yet. Returns the number of new messages.
    pub(super) fn rest(
        &self,
        connection: &Connection,
        stored: &[StoredEntry],
        known: &KnownConversation,
    ) -> StoreResult<u64> {
        let mut writer = self.writer(connection);
        writer.sessions = known.sessions.iter().map(|session| (session.id.clone(), session.key)).collect();
        let rest = self.plan.after(stored.len(), known.sessions.len());
        self.write(&mut writer, &rest)?;
        if let Some(head) = known.sessions.len().checked_sub(1) {
            self.go_on_from(&writer, &self.plan.whole.sessions[head])?;
        }
        Ok(rest.messages.iter().filter(|message| message.turn_id.is_some()).count() as u64)
    }

    fn writer<'a>(&self, connection: &'a Connection) -> PieceWriter<'a> {
        PieceWriter::new(connection, self.import.tenant, self.conversation, self.id, 0)
    }

    fn write(&self, writer: &mut PieceWriter<'_>, pieces: &Copied<()>) -> StoreResult<()> {
        writer.write(pieces).map_err(unwritten)?;
        for session in &pieces.sessions {
            writer.names().of_session(&session.id, writer.own_session(&session.id).map_err(unwritten)?)?;
        }
        self.update(writer.connection())?;
        self.remember(writer)
    }

    /// Updates the session that was the head: it has ended if another follows, and may have been compacted in place.
    fn go_on_from(&self, writer: &PieceWriter<'_>, head: &CopiedSession) -> StoreResult<()> {
        if let Some(compaction) = head.base_compaction {
            writer.set_base(&head.id, compaction).map_err(unwritten)?;
        }
        let key = writer.own_session(&head.id).map_err(unwritten)?;
        let end = params![key, head.ended_at.map(|at| at.0), head.end_reason.map(EndReason::as_str)];
        writer
            .connection()
            .execute("UPDATE sessions SET ended_at = ?2, end_reason = ?3 WHERE pk = ?1", end)
            .map(drop)
            .translated()
    }

    /// Updates the counts of the conversation. A title that it got here stays.
    fn update(&self, connection: &Connection) -> StoreResult<()> {
        let ImportTarget { new, plan, conversation, .. } = self;
        let Copied { messages, turns, compactions, .. } = &plan.whole;
        connection
            .prepare_cached(
                "UPDATE conversations SET next_seq = ?2, message_count = ?3, turn_count = ?4, input_tokens = ?5,
                 output_tokens = ?6, cached_tokens = ?7, reasoning_tokens = ?8, compaction_count = ?9,
                 compaction_mode = ?10, updated_at = max(updated_at, ?11),
                 title = iif(nameless, NULL, coalesce(title, ?12)), version = version + 1, changes = changes + 1
                 WHERE pk = ?1",
            )
            .and_then(|mut update| {
                update.execute(params![
                    conversation,
                    messages.len() as i64 + 1,
                    messages.iter().filter(|message| message.turn_id.is_some()).count() as i64,
                    turns.len() as i64,
                    new.usage.input as i64,
                    new.usage.output as i64,
                    new.usage.cached as i64,
                    new.usage.reasoning as i64,
                    compactions.len() as i64,
                    compactions.last().map(|last| last.mode.as_str()),
                    new.updated_at.0,
                    new.title
                ])
            })
            .map(drop)
            .translated()
    }

    /// Stores what was imported, and the version after it.
    fn remember(&self, writer: &PieceWriter<'_>) -> StoreResult<()> {
        let ImportTarget { import, new, plan, conversation, .. } = self;
        let mut insert = writer
            .connection()
            .prepare_cached(
                "INSERT INTO imports (tenant_pk, file, origin, conversation_pk, session_pk, content, version)
                 SELECT ?1, ?2, ?3, pk, ?5, ?6, version FROM conversations WHERE pk = ?4
                 ON CONFLICT DO UPDATE SET content = excluded.content, version = excluded.version",
            )
            .translated()?;
        for (session, written) in new.sessions.iter().zip(&plan.whole.sessions) {
            let (tenant, key) = (import.tenant.0, writer.own_session(&written.id).map_err(unwritten)?);
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

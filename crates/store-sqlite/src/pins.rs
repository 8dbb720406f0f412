//! Messages that every compaction keeps word for word. A tool call and its results are pinned together.

use std::collections::HashSet;
use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::limits::MAX_PINNED;
use herma_model::{Alias, CallId, ConversationId, Message, MessageId, MessageStatus, Role, TenantId};
use herma_store::{PinOutcome, Scope};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::{StoreResult, Translate};
use crate::lineage::Lineage;
use crate::messages::{self, MessagePlace};
use crate::rows::{self, MESSAGE};
use crate::{rewinds, snapshot};

/// Pins a message, together with its tool call or results.
pub(crate) fn pin(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    message: MessageId,
) -> StoreResult<PinOutcome> {
    let Some((conversation, group)) = find(connection, scope, alias, message)? else {
        return Ok(PinOutcome::NotFound);
    };
    if group.iter().any(|said| said.status == MessageStatus::Partial) {
        return Ok(PinOutcome::NotWhole);
    }
    let already = places(connection, conversation)?;
    let new: Vec<&PinCandidate> = group.iter().filter(|said| !already.contains(&said.seq)).collect();
    if already.len() + new.len() > MAX_PINNED {
        return Ok(PinOutcome::TooMany { limit: MAX_PINNED });
    }
    if !new.is_empty() {
        note_change(connection, conversation)?;
    }
    for said in new {
        connection
            .execute(
                "INSERT INTO pins (conversation_pk, seq, message_pk) VALUES (?1, ?2, ?3)",
                [conversation, said.seq, said.key],
            )
            .translated()?;
    }
    Ok(PinOutcome::Done)
}

/// Unpins a message, together with its tool call or results.
pub(crate) fn unpin(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    message: MessageId,
) -> StoreResult<PinOutcome> {
    let Some((conversation, group)) = find(connection, scope, alias, message)? else {
        return Ok(PinOutcome::NotFound);
    };
    let mut removed = 0;
    for said in &group {
        removed += connection
            .execute("DELETE FROM pins WHERE conversation_pk = ?1 AND seq = ?2", [conversation, said.seq])
            .translated()?;
    }
    if removed > 0 {
        note_change(connection, conversation)?;
    }
    Ok(PinOutcome::Done)
}

/// Gives a conversation another revision. Its version does not change, because the model is shown the same.
fn note_change(connection: &Connection, conversation: i64) -> StoreResult<()> {
    connection
        .execute("UPDATE conversations SET changes = changes + 1 WHERE pk = ?1", [conversation])
        .map(drop)
        .translated()
}

/// The pinned messages of a conversation that no rewind hides, in order.
pub(crate) fn pinned(
    connection: &Connection,
    tenant: TenantId,
    conversation: ConversationId,
) -> StoreResult<Vec<Arc<Message>>> {
    let shown = rewinds::shows("p.seq", "c.rewinds");
    connection
        .prepare_cached(&format!(
            "SELECT {MESSAGE} FROM conversations c JOIN pins p ON p.conversation_pk = c.pk
             JOIN messages m ON m.pk = p.message_pk
             JOIN sessions s ON s.pk = m.session_pk JOIN turns t ON t.pk = m.turn_pk
             WHERE c.id = ?1 AND c.tenant_pk = ?2 AND {shown}
             ORDER BY p.seq"
        ))
        .and_then(|mut select| {
            let id = conversation.uuid();
            select.query_map(params![id.as_bytes(), tenant.0], |row| rows::message(row).map(Arc::new))?.collect()
        })
        .translated()
}

fn places(connection: &Connection, conversation: i64) -> StoreResult<HashSet<i64>> {
    connection
        .prepare_cached("SELECT seq FROM pins WHERE conversation_pk = ?1")
        .and_then(|mut select| select.query_map([conversation], |row| row.get(0))?.collect())
        .translated()
}

/// The fields of a message that tell which messages belong together.
struct PinCandidate {
    key: i64,
    seq: i64,
    role: Role,
    calls: Arc<[CallId]>,
    status: MessageStatus,
}

const PIN_CANDIDATE: &str =
    "m.pk, m.seq, m.role, m.calls, m.status FROM sessions s JOIN messages m ON m.session_pk = s.pk
     WHERE m.compaction_pk IS NULL AND s.conversation_pk = ?1 AND m.seq <= ?2";

impl PinCandidate {
    fn at(connection: &Connection, place: MessagePlace) -> StoreResult<Self> {
        connection
            .prepare_cached("SELECT pk, seq, role, calls, status FROM messages WHERE pk = ?1")
            .and_then(|mut select| select.query_row([place.key], Self::read))
            .translated()
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            seq: row.get(1)?,
            role: rows::word(row, 2, Role::parse)?,
            calls: rows::calls_from(row.get_ref(3)?.as_str_or_null()?),
            status: rows::word(row, 4, MessageStatus::parse)?,
        })
    }

    /// Whether this is the result of one of another message's calls.
    fn answers(&self, caller: &Self) -> bool {
        self.role == Role::Tool && self.calls.iter().any(|call| caller.calls.contains(call))
    }
}

/// The conversation that a name leads to, and a message of it with its tool call or results.
fn find(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    message: MessageId,
) -> StoreResult<Option<(i64, Vec<PinCandidate>)>> {
    let Some((state, _)) = snapshot::visible(connection, scope, alias, Namespace::Session)? else { return Ok(None) };
    let lineage = Lineage::after(connection, &state, 0)?;
    let Some(place) = messages::find(connection, scope.tenant, &lineage, message)? else { return Ok(None) };
    let said = PinCandidate::at(connection, place)?;
    let caller = match said.role {
        Role::Assistant if !said.calls.is_empty() => Ok(said),
        Role::Tool => caller(connection, &lineage, &said)?.ok_or(said),
        Role::Assistant | Role::User => Err(said),
    };
    Ok(Some((
        state.key,
        match caller {
            Ok(caller) => group(connection, &lineage, caller)?,
            Err(alone) => vec![alone],
        },
    )))
}

/// The message whose call a result answers: the last message before it that is not a result.
fn caller(connection: &Connection, lineage: &Lineage, result: &PinCandidate) -> StoreResult<Option<PinCandidate>> {
    let mut select = connection
        .prepare_cached(&format!("SELECT {PIN_CANDIDATE} AND m.role <> 'tool' ORDER BY s.pk DESC, m.seq DESC LIMIT 1"))
        .translated()?;
    for segment in lineage.segments().iter().rev() {
        let range = [segment.conversation, segment.through.min(result.seq - 1)];
        if let Some(before) = select.query_row(range, PinCandidate::read).optional().translated()? {
            return Ok(Some(before).filter(|before| result.answers(before)));
        }
    }
    Ok(None)
}

/// A message with calls, and the results that directly follow it.
fn group(connection: &Connection, lineage: &Lineage, caller: PinCandidate) -> StoreResult<Vec<PinCandidate>> {
    let mut select = connection
        .prepare_cached(&format!("SELECT {PIN_CANDIDATE} AND m.seq > ?3 ORDER BY s.pk, m.seq"))
        .translated()?;
    let after = caller.seq;
    let mut group = vec![caller];
    for segment in lineage.segments() {
        let mut following = select.query([segment.conversation, segment.through, after]).translated()?;
        while let Some(row) = following.next().translated()? {
            let next = PinCandidate::read(row).translated()?;
            if next.role != Role::Tool {
                return Ok(group);
            }
            if next.answers(&group[0]) {
                group.push(next);
            }
        }
    }
    Ok(group)
}

//! Deletes a conversation and everything that leads to it.
//!
//! Branches refer to what they inherit. So a deleted conversation keeps its sessions, messages, turns and compactions
//! up to the last inherited place. No name and no turn leads there. These rows are deleted with the last branch that
//! needs them.
//!
//! - [`steps`]: erases a conversation, a session key or a tenant, and writes the receipt.
//! - [`leftovers`]: the second reading. [`receipts`]: what became of an erasure.
//! - [`scrub`], [`counts`]: what makes erased text leave the files.

pub(crate) mod counts;
pub(crate) mod leftovers;
pub(crate) mod receipts;
pub(crate) mod scrub;
pub(crate) mod steps;

use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::{
    Alias, ConversationEvent, ConversationId, ErasureId, SessionKey, StopKind, TenantId, Timestamp, TurnId,
};
use herma_store::{Children, Facts, Removed, Scope};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::lineage::{END, Segment};
use crate::park::end_parked;
use crate::{events, grants, memories, outbox, parent, queue, rows, snapshot, takeover};

/// What a conversation's name leads to for an erasure.
pub(crate) enum Found {
    /// The conversation's id; and its key and those of its descendants, each after its parent.
    Conversations(ConversationId, Vec<i64>),
    /// A turn runs or waits in one of them.
    Busy(TurnId),
    /// The name leads nowhere.
    Nothing,
}

/// Finds the conversations that are to be erased. Changes nothing except that dead owners' turns are ended.
pub(crate) fn find(
    connection: &Connection,
    instance: &Instance,
    scope: &Scope,
    alias: &Alias,
    children: Children,
    now: Timestamp,
) -> StoreResult<Found> {
    let found = snapshot::visible(connection, scope, alias, Namespace::Session)?;
    let Some((state, _)) = found.filter(|(state, _)| !state.provisional) else { return Ok(Found::Nothing) };
    let mut all = vec![state.key];
    if children == Children::Delete {
        all.extend(descendants(connection, scope, state.key)?);
    }
    for conversation in &all {
        if let Some(turn) = busy_turn(connection, instance, *conversation, now)? {
            return Ok(Found::Busy(turn));
        }
    }
    Ok(Found::Conversations(state.facts.id, all))
}

/// The descendants of a conversation that the caller can see, each after its parent.
fn descendants(connection: &Connection, scope: &Scope, conversation: i64) -> StoreResult<Vec<i64>> {
    let mut select = connection
        .prepare_cached("SELECT pk, session_key FROM conversations WHERE parent_pk = ?1 ORDER BY updated_at, pk")
        .translated()?;
    let mut all = vec![conversation];
    let mut next = 0;
    while let Some(parent) = all.get(next).copied() {
        let mut children = select.query([parent]).translated()?;
        while let Some(child) = children.next().translated()? {
            if rows::sees(&scope.keys, child, 1).translated()? {
                all.push(child.get(0).translated()?);
            }
        }
        next += 1;
    }
    all.remove(0);
    Ok(all)
}

/// The turn that runs or waits in a conversation. Turns of dead owners are ended. A parked turn does not count.
pub(crate) fn busy_turn(
    connection: &Connection,
    instance: &Instance,
    conversation: i64,
    now: Timestamp,
) -> StoreResult<Option<TurnId>> {
    let mut state = snapshot::load(connection, conversation)?;
    let live = takeover::live_turn(connection, instance, &mut state, now)?;
    if let Some(live) = live.filter(|live| !live.is_parked) {
        return Ok(Some(live.id));
    }
    Ok(queue::first(connection, instance, conversation, now)?.map(|first| first.id))
}

/// How a conversation is erased.
#[derive(Clone, Copy, Default)]
pub(crate) struct Manner<'a> {
    /// The session key that the last event of the conversation is stored with, in place of its own.
    pub(crate) as_key: Option<&'a SessionKey>,
    /// What becomes of the facts that come from it.
    pub(crate) facts: Facts,
    /// The receipt, if an outside memory provider is told of each conversation.
    pub(crate) receipt: Option<ErasureId>,
}

/// Deletes a conversation, except what branches inherit. Also deletes the deleted sources that only it still needed. A
/// turn that runs here is parked, because the caller has refused others; it ends. The caller also deletes the blocks of
/// other turns that quote the conversation: [`memories::recalls::forget_conversations`].
pub(crate) fn erase(
    connection: &Connection,
    conversation: i64,
    how: Manner<'_>,
    removed: &mut Removed,
    now: Timestamp,
) -> StoreResult<()> {
    let mut state = snapshot::load(connection, conversation)?;
    if let Some(parked) = state.running {
        end_parked(connection, &mut state, parked, StopKind::Cancel, now)?;
    }
    let own_key = state.facts.session_key.clone();
    if how.as_key.is_some() {
        Arc::make_mut(&mut state.facts).session_key = how.as_key.cloned();
    }
    removed.conversations += 1;
    removed.events += events::forget(connection, conversation)?;
    events::record(connection, conversation, &state.facts, ConversationEvent::Deleted, now)?;
    grants::forget(connection, conversation)?;
    match how.facts {
        Facts::Erase => removed.memories += memories::forget_conversation(connection, conversation)?,
        Facts::Keep => memories::leave_conversation(connection, conversation)?,
    }
    outbox::erasures::conversation(connection, conversation, how.receipt, now)?;
    let tenant = connection
        .prepare_cached("SELECT tenant_pk FROM conversations WHERE pk = ?1")
        .and_then(|mut select| select.query_row([conversation], |row| row.get(0).map(TenantId)))
        .translated()?;
    erase_rows(connection, conversation, removed)?;
    own_key.map_or(Ok(()), |key| memories::versions::forget_unused(connection, tenant, &key))
}

/// Deletes the rows of a conversation that branches do not inherit, and those of deleted sources that only it needed.
fn erase_rows(connection: &Connection, conversation: i64, removed: &mut Removed) -> StoreResult<()> {
    let mut next = Some(conversation);
    while let Some(conversation) = next {
        let source = Segment::inherited(connection, conversation)?.map(|source| source.conversation);
        let rest = InheritedPart::of(connection, conversation)?;
        cut_back(connection, conversation, rest.unwrap_or(InheritedPart::NOTHING), removed)?;
        if let Some(rest) = rest {
            return mark_deleted(connection, conversation, rest);
        }
        connection.execute("DELETE FROM conversations WHERE pk = ?1", [conversation]).translated()?;
        next = source.map(|source| if_deleted(connection, source)).transpose()?.flatten();
    }
    Ok(())
}

/// Deletes all messages and names of a conversation, but not its row. `false`, without any change, if a branch inherits
/// from it.
pub(crate) fn empty(connection: &Connection, conversation: i64) -> StoreResult<bool> {
    if InheritedPart::of(connection, conversation)?.is_some() {
        return Ok(false);
    }
    cut_back(connection, conversation, InheritedPart::NOTHING, &mut Removed::default()).map(|()| true)
}

/// Selects the keys of all turns of conversation `?1`. No index has all of them.
pub(crate) const TURNS_OF_CONVERSATION: &str =
    "SELECT m.turn_pk FROM sessions s JOIN messages m ON m.session_pk = s.pk WHERE s.conversation_pk = ?1
     UNION SELECT pk FROM turns INDEXED BY turns_unanswered WHERE conversation_pk = ?1
     AND (state = 'failed' OR state = 'cancelled' OR state = 'interrupted')
     UNION SELECT pk FROM turns WHERE conversation_pk = ?1 AND first_seq IS NULL";

/// The last session and the last place that branches inherit from a conversation.
#[derive(Clone, Copy)]
pub(crate) struct InheritedPart {
    pub(crate) session: i64,
    pub(crate) through: i64,
}

impl InheritedPart {
    /// Before every session and every place.
    pub(crate) const NOTHING: Self = Self { session: 0, through: 0 };

    pub(crate) fn of(connection: &Connection, conversation: i64) -> StoreResult<Option<Self>> {
        let last: (Option<i64>, Option<i64>) = connection
            .prepare_cached(
                "SELECT max(b.base_session_pk), max(b.base_seq) FROM sessions s
                 JOIN sessions b ON b.base_session_pk = s.pk AND b.kind = 'branch'
                 WHERE s.conversation_pk = ?1",
            )
            .and_then(|mut select| select.query_row([conversation], |row| Ok((row.get(0)?, row.get(1)?))))
            .translated()?;
        Ok(last.0.zip(last.1).map(|(session, through)| Self { session, through }))
    }
}

fn if_deleted(connection: &Connection, conversation: i64) -> StoreResult<Option<i64>> {
    connection
        .prepare_cached("SELECT pk FROM conversations WHERE pk = ?1 AND deleted = 1")
        .and_then(|mut select| select.query_row([conversation], |row| row.get(0)).optional())
        .translated()
}

/// Deletes all names of a conversation, and everything after `rest`.
fn cut_back(connection: &Connection, conversation: i64, rest: InheritedPart, removed: &mut Removed) -> StoreResult<()> {
    let delete = |statement: &str| connection.execute(statement, [conversation]).map(|rows| rows as u64).translated();
    removed.names += delete("DELETE FROM aliases WHERE conversation_pk = ?1")?;
    delete("DELETE FROM pins WHERE conversation_pk = ?1")?;
    delete("DELETE FROM imports WHERE conversation_pk = ?1")?;
    delete("DELETE FROM readings WHERE conversation_pk = ?1")?;
    parent::disconnect_children(connection, conversation, 0)?;
    removed.turns += forget_turns(connection, conversation, rest.through)?;
    let delete_after = |place: i64, statement: &str| {
        connection.execute(statement, [conversation, place]).map(|rows| rows as u64).translated()
    };
    let later = "SELECT k.pk FROM compactions k LEFT JOIN messages m ON m.pk = k.summary_pk
         WHERE k.conversation_pk = ?1 AND (m.seq IS NULL OR m.seq > ?2)";
    delete_after(rest.through, &format!("DELETE FROM carried WHERE compaction_pk IN ({later})"))?;
    removed.compactions += delete_after(rest.through, &format!("DELETE FROM compactions WHERE pk IN ({later})"))?;
    removed.messages += delete_after(
        rest.through,
        "DELETE FROM messages WHERE session_pk IN (SELECT pk FROM sessions WHERE conversation_pk = ?1) AND seq > ?2",
    )?;
    removed.sessions += delete_after(rest.session, "DELETE FROM sessions WHERE conversation_pk = ?1 AND pk > ?2")?;
    Ok(())
}

/// Deletes the turns that began after `through`. Earlier turns stay as the authors of inherited messages, but cannot be
/// fetched or joined. Returns how many were deleted.
fn forget_turns(connection: &Connection, conversation: i64, through: i64) -> StoreResult<u64> {
    let turns: Vec<(i64, bool)> = connection
        .prepare_cached(&format!(
            "SELECT pk, coalesce(first_seq, ?3) > ?2 FROM turns WHERE pk IN ({TURNS_OF_CONVERSATION})"
        ))
        .and_then(|mut select| {
            select.query_map(params![conversation, through, END], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
        .translated()?;
    let mut remove = connection.prepare_cached("DELETE FROM turns WHERE pk = ?1").translated()?;
    let mut keep = connection
        .prepare_cached(
            "UPDATE turns SET kept = 0, echo = NULL, joinable = 0, history = NULL, history_key = NULL WHERE pk = ?1",
        )
        .translated()?;
    // A trigger deletes the row of a deleted turn. That of an inherited one still says whether the turn is recorded.
    let mut forget_block = connection
        .prepare_cached("UPDATE recalls SET block = NULL, sources = NULL WHERE turn_pk = ?1 AND block IS NOT NULL")
        .translated()?;
    let mut removed = 0;
    for (turn, is_later) in turns {
        queue::forget_idempotency(connection, turn)?;
        forget_block.execute([turn]).translated()?;
        if is_later { remove.execute([turn]) } else { keep.execute([turn]) }.translated()?;
        removed += u64::from(is_later);
    }
    Ok(removed)
}

/// Marks a conversation as deleted and clears what branches do not inherit.
fn mark_deleted(connection: &Connection, conversation: i64, rest: InheritedPart) -> StoreResult<()> {
    for statement in [
        "UPDATE sessions SET base_compaction_pk = NULL, parent_pk = NULL, missing_parent = NULL
         WHERE conversation_pk = ?1",
        "UPDATE compactions SET undone_by_pk = NULL WHERE conversation_pk = ?1",
    ] {
        connection.execute(statement, [conversation]).translated()?;
    }
    connection
        .execute(
            "UPDATE conversations SET deleted = 1, head_pk = ?2, previous_pk = NULL, session_key = NULL,
             owner_key = NULL, title = NULL, cwd = NULL, tool_mode = NULL, chosen_model = NULL, metadata = NULL,
             system = NULL, parent_pk = NULL, parent_tool_call = NULL, provisional = 0, history = NULL, chat = NULL
             WHERE pk = ?1",
            [conversation, rest.session],
        )
        .map(drop)
        .translated()
}

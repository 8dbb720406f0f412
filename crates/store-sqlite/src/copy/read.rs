//! Reads a stored conversation as pieces.

use std::collections::HashSet;

use herma_model::alias::Namespace;
use herma_model::compaction::{CompactionAction, CompactionOutcome, CompactionTrigger, MadeBy};
use herma_model::copy::{
    CopiedBase, CopiedCompaction, CopiedConversation, CopiedCount, CopiedMessage, CopiedName, CopiedParent,
    CopiedSession, CopiedSource, Piece,
};
use herma_model::provenance::CompactionMode;
use herma_model::{
    Alias, CompactionId, ConversationId, CreatorKind, Digest, EndReason, MessageId, ParentRelation, Rewinds, Seq,
    SessionId, SessionKey, SessionKind, Timestamp, ToolMode, TurnId,
};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::turns::turns;
use crate::failure::{StoreResult, Translate};
use crate::ledger::OUTCOME;
use crate::lineage::{END, Segment};
use crate::{rewinds, rows, usage};

/// Receives the pieces.
pub(super) type PieceSink<'a> = &'a mut dyn FnMut(Piece) -> StoreResult<()>;

/// A conversation with everything that belongs to it, but without what it inherits.
pub(super) fn conversation(connection: &Connection, whole: Segment, take: PieceSink<'_>) -> StoreResult<()> {
    let mut described = connection
        .prepare_cached(
            "SELECT id, origin_kind, source, title, session_key, cwd, metadata, system, archived, created_at,
             updated_at, ended_at, end_reason, message_count, turn_count, input_tokens, output_tokens, cached_tokens,
             reasoning_tokens, compaction_count, compaction_mode, auto_compaction_paused, counted_seq, counted_tokens,
             rewrites, next_seq, title_is_excerpt, nameless, rewinds, parent_tool_call, side_input_tokens,
             side_output_tokens, cost, chat, tool_mode, chosen_model FROM conversations WHERE pk = ?1",
        )
        .and_then(|mut select| select.query_row([whole.conversation], describe))
        .translated()?;
    described.pinned =
        places(connection, "SELECT seq FROM pins WHERE conversation_pk = ?1 ORDER BY seq", whole.conversation)?;
    described.names = names(connection, whole.conversation)?;
    let rewinds = described.rewinds.clone();
    take(Piece::Conversation(Box::new(described)))?;
    belongings(connection, whole, &rewinds, take)
}

/// What a branch with these rewinds inherits of a conversation.
pub(super) fn source(
    connection: &Connection,
    part: Segment,
    rewinds: &Rewinds,
    take: PieceSink<'_>,
) -> StoreResult<()> {
    let described = connection
        .prepare_cached("SELECT id, origin_kind, source, created_at FROM conversations WHERE pk = ?1")
        .and_then(|mut select| {
            select.query_row([part.conversation], |row| {
                Ok(CopiedSource {
                    id: ConversationId::from_uuid(rows::uuid(row, 0)?),
                    origin_kind: rows::word(row, 1, SessionKind::parse)?,
                    source: rows::text(row, 2)?,
                    created_at: Timestamp(row.get(3)?),
                    through: Seq(part.through),
                })
            })
        })
        .translated()?;
    take(Piece::Inherited(described))?;
    belongings(connection, part, rewinds, take)
}

fn belongings(connection: &Connection, part: Segment, rewinds: &Rewinds, take: PieceSink<'_>) -> StoreResult<()> {
    sessions(connection, part, take)?;
    let turns = turns(connection, part, take)?;
    compactions(connection, part, &turns, take)?;
    messages(connection, part, rewinds, take)
}

fn describe(row: &Row<'_>) -> rusqlite::Result<CopiedConversation> {
    let counted = row.get::<_, Option<i64>>(22)?.zip(row.get::<_, Option<i64>>(23)?);
    Ok(CopiedConversation {
        id: ConversationId::from_uuid(rows::uuid(row, 0)?),
        origin_kind: rows::word(row, 1, SessionKind::parse)?,
        source: rows::text(row, 2)?,
        title: row.get(3)?,
        title_is_first_words: row.get(26)?,
        nameless: row.get(27)?,
        session_key: row.get_ref(4)?.as_str_or_null()?.and_then(|key| SessionKey::parse(key).ok()),
        cwd: row.get(5)?,
        tool_mode: rows::optional_word(row, 34, ToolMode::parse)?,
        chosen_model: row.get(35)?,
        metadata: rows::optional_text(row, 6)?,
        system: rows::system_from(row.get_ref(7)?.as_str_or_null()?).to_vec(),
        archived: row.get(8)?,
        created_at: Timestamp(row.get(9)?),
        updated_at: Timestamp(row.get(10)?),
        ended_at: row.get::<_, Option<i64>>(11)?.map(Timestamp),
        end_reason: rows::optional_word(row, 12, EndReason::parse)?,
        message_count: rows::count(row, 13)?,
        turn_count: rows::count(row, 14)?,
        usage: rows::usage(row, 15)?,
        side_usage: usage::side_usage(row, 30)?,
        cost: usage::cost(row, 32)?,
        parent_tool_call_id: rows::optional_text(row, 29)?,
        compaction_count: row.get(19)?,
        compaction_mode: rows::optional_word(row, 20, CompactionMode::parse)?,
        auto_compaction_paused: row.get(21)?,
        counted: counted.map(|(place, tokens)| CopiedCount { place: Seq(place), tokens: tokens.unsigned_abs() }),
        rewrites: row.get(24)?,
        next_place: Seq(row.get(25)?),
        pinned: Vec::new(),
        rewinds: rewinds::read(row, 28)?,
        chat: row.get::<_, Option<[u8; 16]>>(33)?.map(Digest),
        names: Vec::new(),
    })
}

/// The places that a statement finds for a key.
fn places(connection: &Connection, statement: &str, key: i64) -> StoreResult<Vec<Seq>> {
    connection
        .prepare_cached(statement)
        .and_then(|mut select| select.query_map([key], |row| row.get(0).map(Seq))?.collect())
        .translated()
}

/// Names other than the ids of the conversation and its sessions.
fn names(connection: &Connection, conversation: i64) -> StoreResult<Vec<CopiedName>> {
    let own = connection
        .query_row("SELECT id FROM conversations WHERE pk = ?1", [conversation], |row| rows::uuid(row, 0))
        .translated()?;
    let mut select = connection
        .prepare_cached(
            "SELECT namespace, alias FROM aliases WHERE conversation_pk = ?1 AND session_pk IS NULL
             AND NOT (namespace = 'session' AND alias = ?2)
             ORDER BY namespace, alias",
        )
        .translated()?;
    let mut found = select.query(params![conversation, ConversationId::from_uuid(own).to_string()]).translated()?;
    let mut names = Vec::new();
    while let Some(row) = found.next().translated()? {
        let namespace = rows::word(row, 0, Namespace::parse).translated()?;
        let name = row.get_ref(1).and_then(|name| Ok(name.as_str()?)).translated()?;
        names.extend(Alias::parse(name).ok().map(|name| CopiedName { namespace, name }));
    }
    Ok(names)
}

fn sessions(connection: &Connection, part: Segment, take: PieceSink<'_>) -> StoreResult<()> {
    let mut select = connection
        .prepare_cached(
            "SELECT s.id, s.kind, s.depth, s.parent_id, s.parent_relation, coalesce(pc.id, s.missing_parent),
             s.creator_kind, s.reason, bc.id, b.id, s.base_seq, k.id, s.created_at, s.ended_at, s.end_reason
             FROM sessions s
             LEFT JOIN sessions p ON p.pk = s.parent_pk LEFT JOIN conversations pc ON pc.pk = p.conversation_pk
             AND pc.pk <> s.conversation_pk
             LEFT JOIN sessions b ON b.pk = s.base_session_pk LEFT JOIN conversations bc ON bc.pk = b.conversation_pk
             AND bc.pk <> s.conversation_pk
             LEFT JOIN compactions k ON k.pk = s.base_compaction_pk WHERE s.conversation_pk = ?1 AND s.pk <= ?2
             ORDER BY s.pk",
        )
        .translated()?;
    let is_part = part.through != END;
    let mut found = select.query([part.conversation, part.session]).translated()?;
    while let Some(row) = found.next().translated()? {
        let mut session = session(row).translated()?;
        if is_part {
            // The base of an inherited session is that of the branch. Its parents' conversations are not shown.
            session.base_compaction = None;
            session.parent.iter_mut().for_each(|parent| parent.conversation_id = None);
        }
        take(Piece::Session(Box::new(session)))?;
    }
    Ok(())
}

fn session(row: &Row<'_>) -> rusqlite::Result<CopiedSession> {
    let parent = row.get_ref(3)?.as_str_or_null()?.map(SessionId::from_name);
    let relation = rows::optional_word(row, 4, ParentRelation::parse)?;
    let parent_conversation = optional_id(row, 5)?.map(ConversationId::from_uuid);
    let base_conversation = optional_id(row, 8)?.map(ConversationId::from_uuid);
    let base = row.get_ref(9)?.as_str_or_null()?.map(SessionId::from_name);
    let base_place = row.get::<_, Option<i64>>(10)?.map(Seq);
    Ok(CopiedSession {
        id: SessionId::from_name(row.get_ref(0)?.as_str()?),
        kind: rows::word(row, 1, SessionKind::parse)?,
        depth: row.get(2)?,
        parent: parent.zip(relation).map(|(session_id, relation)| CopiedParent {
            session_id,
            relation,
            conversation_id: parent_conversation,
        }),
        creator_kind: rows::word(row, 6, CreatorKind::parse)?,
        reason: rows::optional_text(row, 7)?,
        base: base.zip(base_place).map(|(session_id, place)| CopiedBase {
            conversation_id: base_conversation,
            session_id,
            place,
        }),
        base_compaction: optional_id(row, 11)?.map(CompactionId::from_uuid),
        created_at: Timestamp(row.get(12)?),
        ended_at: row.get::<_, Option<i64>>(13)?.map(Timestamp),
        end_reason: rows::optional_word(row, 14, EndReason::parse)?,
    })
}

fn messages(connection: &Connection, part: Segment, rewinds: &Rewinds, take: PieceSink<'_>) -> StoreResult<()> {
    let mut select = connection
        .prepare_cached(
            "SELECT m.role, m.status, m.payload, m.extra, m.digest, m.calls, m.tokens, m.id, s.id, m.seq, t.id, k.id,
             m.attempt, m.created_at
             FROM sessions s JOIN messages m ON m.session_pk = s.pk LEFT JOIN turns t ON t.pk = m.turn_pk
             LEFT JOIN compactions k ON k.pk = m.compaction_pk
             WHERE s.conversation_pk = ?1 AND s.pk <= ?2 AND m.seq <= ?3 ORDER BY s.pk, m.seq",
        )
        .translated()?;
    let mut found = select.query([part.conversation, part.session, part.through]).translated()?;
    while let Some(row) = found.next().translated()? {
        let mut message = message(row).translated()?;
        message.rewound = message.compaction_id.is_none() && rewinds.hide(message.place);
        take(Piece::Message(Box::new(message)))?;
    }
    Ok(())
}

fn message(row: &Row<'_>) -> rusqlite::Result<CopiedMessage> {
    Ok(CopiedMessage {
        id: MessageId::from_uuid(rows::uuid(row, 7)?),
        session_id: SessionId::from_name(row.get_ref(8)?.as_str()?),
        place: Seq(row.get(9)?),
        turn_id: optional_id(row, 10)?.map(TurnId::from_uuid),
        compaction_id: optional_id(row, 11)?.map(CompactionId::from_uuid),
        attempt: row.get(12)?,
        created_at: Timestamp(row.get(13)?),
        rewound: false,
        said: rows::utterance(row, 0)?,
    })
}

/// Sends the ledger. A compaction names its turn only if that turn was sent, because a restore knows no other.
fn compactions(
    connection: &Connection,
    part: Segment,
    turns: &HashSet<TurnId>,
    take: PieceSink<'_>,
) -> StoreResult<()> {
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT k.pk, k.id, k.action, k.mode, k.trigger, {OUTCOME}, b.id, a.id, g.id, k.first_seq,
             k.through_seq, k.model, k.tokens_before, k.tokens_after, k.input_tokens, k.output_tokens, k.cached_tokens,
             k.reasoning_tokens, k.duration_ms, k.failure, u.id, v.id, t.id, k.created_at, k.made_by
             FROM compactions k JOIN sessions b ON b.pk = k.session_before_pk
             JOIN sessions a ON a.pk = k.session_after_pk
             LEFT JOIN compactions g ON g.pk = k.base_pk LEFT JOIN compactions u ON u.pk = k.undoes_pk
             LEFT JOIN compactions v ON v.pk = k.undone_by_pk
             LEFT JOIN turns t ON t.pk = k.turn_pk LEFT JOIN messages m ON m.pk = k.summary_pk
             WHERE k.conversation_pk = ?1 AND (?2 = ?3 OR m.seq <= ?2) ORDER BY k.pk"
        ))
        .translated()?;
    let is_part = part.through != END;
    let mut found = select.query([part.conversation, part.through, END]).translated()?;
    while let Some(row) = found.next().translated()? {
        let (key, mut compaction) = compaction(row).translated()?;
        compaction.turn_id = compaction.turn_id.filter(|turn| turns.contains(turn));
        if is_part {
            compaction.undone_by = None;
        }
        compaction.carried = places(connection, "SELECT seq FROM carried WHERE compaction_pk = ?1 ORDER BY seq", key)?;
        take(Piece::Compaction(Box::new(compaction)))?;
    }
    Ok(())
}

fn compaction(row: &Row<'_>) -> rusqlite::Result<(i64, CopiedCompaction)> {
    let id = |column| Ok::<_, rusqlite::Error>(optional_id(row, column)?.map(CompactionId::from_uuid));
    let compaction = CopiedCompaction {
        id: CompactionId::from_uuid(rows::uuid(row, 1)?),
        action: rows::word(row, 2, CompactionAction::parse)?,
        mode: rows::word(row, 3, CompactionMode::parse)?,
        trigger: rows::word(row, 4, CompactionTrigger::parse)?,
        made_by: rows::word(row, 24, MadeBy::parse)?,
        outcome: rows::word(row, 5, CompactionOutcome::parse)?,
        session_before: SessionId::from_name(row.get_ref(6)?.as_str()?),
        session_after: SessionId::from_name(row.get_ref(7)?.as_str()?),
        base: id(8)?,
        first_place: Seq(row.get(9)?),
        last_place: Seq(row.get(10)?),
        carried: Vec::new(),
        model: row.get(11)?,
        tokens_before: rows::count(row, 12)?,
        tokens_after: rows::count(row, 13)?,
        usage: rows::usage(row, 14)?,
        duration_ms: rows::count(row, 18)?,
        failure: row.get(19)?,
        undoes: id(20)?,
        undone_by: id(21)?,
        turn_id: optional_id(row, 22)?.map(TurnId::from_uuid),
        created_at: Timestamp(row.get(23)?),
    };
    Ok((row.get(0)?, compaction))
}

/// A 16-byte id, or `None`.
pub(super) fn optional_id(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Uuid>> {
    Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(Uuid::from_bytes))
}

//! Where a branch leaves its source: always after an answer, so that what it inherits never changes again and makes sense to a model.

use herma_model::{MessageId, TenantId};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::failure::{Outcome, Translate};
use crate::lineage::{END, Lineage, Segment};
use crate::rows::ConversationState;
use crate::said;

/// A place to branch at.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    /// What is inherited, as far as it lies in the conversation in which it ends.
    pub(crate) inherited: Segment,
    /// The session of the source that the branch has as its parent.
    pub(crate) parent: i64,
}

/// What came of looking for the place of a message.
pub(crate) enum Found {
    Point(Point),
    NoSuchMessage,
    Unanswered,
}

impl Point {
    /// After the last answer and, if nothing was asked between the two, after the last summary.
    pub(crate) fn end(connection: &Connection, state: &ConversationState) -> Outcome<Self> {
        let begun = beginning(connection, state.key)?;
        let answer = last_answer(connection, state.key)?.unwrap_or(begun);
        let (session, through) = summary_after(connection, state.key, answer.1)?.unwrap_or(answer);
        Ok(Self { inherited: Segment { conversation: state.key, session, through }, parent: session })
    }

    /// After the answer that a message belongs to.
    pub(crate) fn at(
        connection: &Connection,
        tenant: TenantId,
        state: &ConversationState,
        message: MessageId,
    ) -> Outcome<Found> {
        let lineage = Lineage::after(connection, state, 0)?;
        let Some(place) = said::find(connection, tenant, &lineage, message)? else { return Ok(Found::NoSuchMessage) };
        let Some(segment) = lineage.segments().iter().find(|segment| segment.conversation == place.conversation) else {
            return Ok(Found::NoSuchMessage);
        };
        let is_own = place.conversation == state.key;
        let answer = first_answer(connection, place.key, segment)?;
        // What a branch inherits ends with an answer, also if that was cut out of what was said since.
        let Some((session, through)) = answer.or((!is_own).then_some((segment.session, segment.through))) else {
            return Ok(Found::Unanswered);
        };
        let parent = if is_own { session } else { beginning(connection, state.key)?.0 };
        Ok(Found::Point(Self { inherited: Segment { session, through, ..*segment }, parent }))
    }
}

type Place = (i64, i64);

fn place(row: &Row<'_>) -> rusqlite::Result<Place> {
    Ok((row.get(0)?, row.get(1)?))
}

/// Where a conversation begins: before its first message, of a branch after what it inherits.
fn beginning(connection: &Connection, conversation: i64) -> Outcome<Place> {
    connection
        .prepare_cached(
            "SELECT r.pk, coalesce(r.base_seq, 0) FROM conversations c JOIN sessions r ON r.pk = c.root_pk WHERE c.pk = ?1",
        )
        .and_then(|mut select| select.query_row([conversation], place))
        .translated()
}

/// The last message of a conversation's last completed turn.
fn last_answer(connection: &Connection, conversation: i64) -> Outcome<Option<Place>> {
    connection
        .prepare_cached(
            "SELECT s.pk, m.seq FROM sessions s JOIN messages m ON m.session_pk = s.pk JOIN turns t ON t.pk = m.turn_pk AND t.state = 'completed'
             WHERE s.conversation_pk = ?1 AND m.compaction_pk IS NULL ORDER BY s.pk DESC, m.seq DESC LIMIT 1",
        )
        .and_then(|mut select| select.query_row([conversation], place).optional())
        .translated()
}

/// The last summary after a place, unless something was said between them that has no answer. One of a turn that may still be taken back
/// does not count.
fn summary_after(connection: &Connection, conversation: i64, after: i64) -> Outcome<Option<Place>> {
    connection
        .prepare_cached(
            "SELECT s.pk, m.seq FROM sessions s JOIN messages m ON m.session_pk = s.pk JOIN compactions k ON k.pk = m.compaction_pk
             LEFT JOIN turns t ON t.pk = k.turn_pk WHERE s.conversation_pk = ?1 AND m.seq > ?2 AND (t.pk IS NULL OR t.state = 'completed')
             AND m.seq < coalesce((SELECT min(n.seq) FROM sessions o JOIN messages n ON n.session_pk = o.pk
             WHERE o.conversation_pk = ?1 AND n.seq > ?2 AND n.compaction_pk IS NULL), ?3) ORDER BY s.pk DESC, m.seq DESC LIMIT 1",
        )
        .and_then(|mut select| select.query_row([conversation, after, END], place).optional())
        .translated()
}

/// The first answer from a message on: one that calls nothing, or the last message of a completed turn.
fn first_answer(connection: &Connection, message: i64, within: &Segment) -> Outcome<Option<Place>> {
    connection
        .prepare_cached(
            "SELECT s.pk, m.seq FROM messages f CROSS JOIN sessions s JOIN messages m ON m.session_pk = s.pk JOIN turns t ON t.pk = m.turn_pk
             WHERE f.pk = ?1 AND s.conversation_pk = ?2 AND s.pk BETWEEN f.session_pk AND ?3 AND m.seq >= f.seq AND m.seq <= ?4
             AND m.compaction_pk IS NULL AND t.state = 'completed'
             AND (m.seq = t.last_seq OR (m.role = 'assistant' AND m.status = 'complete' AND m.calls IS NULL))
             ORDER BY s.pk, m.seq LIMIT 1",
        )
        .and_then(|mut select| {
            select.query_row([message, within.conversation, within.session, within.through], place).optional()
        })
        .translated()
}

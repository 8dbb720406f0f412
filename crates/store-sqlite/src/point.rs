//! Where a branch leaves its source: always after an answer. So what it inherits never changes again, and makes sense
//! to a model.

use herma_model::{MessageId, Rewinds, Seq, TenantId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::{StoreResult, Translate};
use crate::lineage::{END, Lineage, Segment};
use crate::rows::ConversationState;
use crate::{messages, rewinds};

/// A place to branch at.
#[derive(Clone, Copy)]
pub(crate) struct Point {
    /// What is inherited, as far as it is stored in the conversation in which it ends.
    pub(crate) inherited: Segment,
    /// The session of the source that the branch has as its parent.
    pub(crate) parent: i64,
}

/// The result of looking for the place of a message.
pub(crate) enum PointOutcome {
    Point(Point),
    NoSuchMessage,
    Unanswered,
}

impl Point {
    /// After the last answer that no rewind hides. If a summary follows and no message in between, after that summary.
    pub(crate) fn end(connection: &Connection, state: &ConversationState) -> StoreResult<Self> {
        let begun = beginning(connection, state.key)?;
        let rewinds = rewinds::of(connection, state.key)?;
        let own = Segment { conversation: state.key, session: state.head, through: END };
        let Some(answer) =
            last_answer(connection, own, &rewinds)?.or(Some(begun).filter(|(_, seq)| !rewinds.hide(Seq(*seq))))
        else {
            return Self::before_the_branch(connection, state, begun.0, &rewinds);
        };
        let (session, through) = summary_after(connection, state.key, answer.1, &rewinds)?.unwrap_or(answer);
        Ok(Self { inherited: Segment { conversation: state.key, session, through }, parent: session })
    }

    /// The same in a branch that was rewound to a place before it began.
    fn before_the_branch(
        connection: &Connection,
        state: &ConversationState,
        parent: i64,
        rewinds: &Rewinds,
    ) -> StoreResult<Self> {
        let lineage = Lineage::after(connection, state, 0)?;
        for segment in lineage.segments().iter().rev() {
            if let Some((session, through)) = last_answer(connection, *segment, rewinds)? {
                return Ok(Self { inherited: Segment { session, through, ..*segment }, parent });
            }
        }
        let conversation = lineage.segments().first().map_or(state.key, |first| first.conversation);
        let (session, through) = beginning(connection, conversation)?;
        Ok(Self { inherited: Segment { conversation, session, through }, parent })
    }

    /// After the answer that a message belongs to.
    pub(crate) fn at(
        connection: &Connection,
        tenant: TenantId,
        state: &ConversationState,
        message: MessageId,
    ) -> StoreResult<PointOutcome> {
        let lineage = Lineage::after(connection, state, 0)?;
        let Some(place) = messages::find(connection, tenant, &lineage, message)? else {
            return Ok(PointOutcome::NoSuchMessage);
        };
        let Some(segment) = lineage.segments().iter().find(|segment| segment.conversation == place.conversation) else {
            return Ok(PointOutcome::NoSuchMessage);
        };
        let is_own = place.conversation == state.key;
        let rewinds = rewinds::of(connection, state.key)?;
        // For a message that was rewound, search in the transcript as it was before that rewind, up to its end.
        let end = match rewinds.is_empty() {
            true => None,
            false => rewinds.end_of_line(place.read(connection)?.seq),
        };
        let line = end.map_or(*segment, |Seq(end)| Segment { through: segment.through.min(end), ..*segment });
        let hidden = end.map_or_else(|| rewinds.clone(), |end| rewinds.before(end));
        let answer = first_answer(connection, place.key, &line, &hidden)?;
        // What a branch inherits ends with an answer, even if the message of that answer was removed since.
        let inherited = (segment.session, segment.through);
        let is_whole = !is_own && end.is_none() && !rewinds.hide(Seq(segment.through));
        let Some((session, through)) = answer.or(is_whole.then_some(inherited)) else {
            return Ok(PointOutcome::Unanswered);
        };
        let parent = if is_own { session } else { beginning(connection, state.key)?.0 };
        Ok(PointOutcome::Point(Self { inherited: Segment { session, through, ..*segment }, parent }))
    }
}

type SessionPlace = (i64, i64);

fn place(row: &Row<'_>) -> rusqlite::Result<SessionPlace> {
    Ok((row.get(0)?, row.get(1)?))
}

/// Where a conversation begins: before its first message, or, for a branch, after what it inherits.
fn beginning(connection: &Connection, conversation: i64) -> StoreResult<SessionPlace> {
    connection
        .prepare_cached(
            "SELECT r.pk, coalesce(r.base_seq, 0) FROM conversations c JOIN sessions r ON r.pk = c.root_pk
             WHERE c.pk = ?1",
        )
        .and_then(|mut select| select.query_row([conversation], place))
        .translated()
}

/// The last message of the last completed turn in a part of a transcript. A turn whose end is hidden by a rewind does
/// not count.
fn last_answer(connection: &Connection, within: Segment, rewinds: &Rewinds) -> StoreResult<Option<SessionPlace>> {
    let (shown, is_answered) = (rewinds::shows("m.seq", "?4"), rewinds::shows("t.last_seq", "?4"));
    connection
        .prepare_cached(&format!(
            "SELECT s.pk, m.seq FROM sessions s JOIN messages m ON m.session_pk = s.pk
             JOIN turns t ON t.pk = m.turn_pk AND t.state = 'completed' AND {is_answered}
             WHERE s.conversation_pk = ?1 AND s.pk <= ?2 AND m.seq <= ?3 AND m.compaction_pk IS NULL AND {shown}
             ORDER BY s.pk DESC, m.seq DESC LIMIT 1"
        ))
        .and_then(|mut select| {
            let range = params![within.conversation, within.session, within.through, rewinds::to(rewinds)];
            select.query_row(range, place).optional()
        })
        .translated()
}

/// The last summary after a place, unless a message lies between them. A summary of a turn that may still be retracted
/// does not count, nor does one that a rewind hides.
fn summary_after(
    connection: &Connection,
    conversation: i64,
    after: i64,
    rewinds: &Rewinds,
) -> StoreResult<Option<SessionPlace>> {
    let (shown, is_said) = (rewinds::shows("m.seq", "?4"), rewinds::shows("n.seq", "?4"));
    connection
        .prepare_cached(&format!(
            "SELECT s.pk, m.seq FROM sessions s JOIN messages m ON m.session_pk = s.pk
             JOIN compactions k ON k.pk = m.compaction_pk
             LEFT JOIN turns t ON t.pk = k.turn_pk WHERE s.conversation_pk = ?1 AND m.seq > ?2
             AND (t.pk IS NULL OR t.state = 'completed')
             AND {shown}
             AND m.seq < coalesce((SELECT min(n.seq) FROM sessions o JOIN messages n ON n.session_pk = o.pk
             WHERE o.conversation_pk = ?1 AND n.seq > ?2 AND n.compaction_pk IS NULL AND {is_said}), ?3)
             ORDER BY s.pk DESC, m.seq DESC LIMIT 1"
        ))
        .and_then(|mut select| {
            select.query_row(params![conversation, after, END, rewinds::to(rewinds)], place).optional()
        })
        .translated()
}

/// The first answer from a message on. Answers that a rewind hides do not count, except that of the message's own turn.
/// An answer is a complete assistant message without calls, or the last message of a completed turn.
fn first_answer(
    connection: &Connection,
    message: i64,
    within: &Segment,
    rewinds: &Rewinds,
) -> StoreResult<Option<SessionPlace>> {
    let shown = rewinds::shows("m.seq", "?5");
    connection
        .prepare_cached(&format!(
            "SELECT s.pk, m.seq FROM messages f CROSS JOIN sessions s JOIN messages m ON m.session_pk = s.pk
             JOIN turns t ON t.pk = m.turn_pk
             WHERE f.pk = ?1 AND s.conversation_pk = ?2 AND s.pk BETWEEN f.session_pk AND ?3 AND m.seq >= f.seq
             AND m.seq <= ?4
             AND m.compaction_pk IS NULL AND t.state = 'completed'
             AND (m.seq = t.last_seq OR (m.role = 'assistant' AND m.status = 'complete' AND m.calls IS NULL))
             AND (m.turn_pk = f.turn_pk OR {shown}) ORDER BY s.pk, m.seq LIMIT 1"
        ))
        .and_then(|mut select| {
            let stored = rewinds::to(rewinds);
            let range = params![message, within.conversation, within.session, within.through, stored];
            select.query_row(range, place).optional()
        })
        .translated()
}

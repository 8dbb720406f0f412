//! Where the messages of a transcript are stored: in its conversation and, for a branch, also in the conversations it
//! comes from.

use herma_model::{SessionKind, TenantId, TurnId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::{StoreResult, Translate};
use crate::rows::ConversationState;

/// A place after every other.
pub(crate) const END: i64 = i64::MAX;

/// The part of a transcript that lies in one conversation.
#[derive(Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) conversation: i64,
    /// The last session of that conversation that belongs to it.
    pub(crate) session: i64,
    /// The last place that belongs to it.
    pub(crate) through: i64,
}

impl Segment {
    /// All of a conversation.
    pub(crate) const fn whole(conversation: i64) -> Self {
        Self { conversation, session: END, through: END }
    }

    /// Whether a model ever answered in it: a turn was completed with at least one message of its own.
    ///
    /// This is the rule of `conversations.answered`. A commit sets the column when such a turn ends; all other writers
    /// ask here. An answer that was removed later still counts in its own conversation. A branch does not inherit a
    /// turn whose messages were all removed. Items that a client added are no answer.
    pub(crate) fn has_answer(self, connection: &Connection) -> StoreResult<bool> {
        connection
            .prepare_cached(
                "SELECT 1 FROM sessions s JOIN messages m ON m.session_pk = s.pk JOIN turns t ON t.pk = m.turn_pk
                 WHERE s.conversation_pk = ?1 AND s.pk <= ?2 AND m.seq <= ?3
                 AND t.state = 'completed' AND t.answer_seq <= min(t.last_seq, ?3)
                 UNION ALL SELECT 1 FROM turns WHERE ?3 = ?4 AND conversation_pk = ?1 AND first_seq IS NULL
                 AND state = 'completed' AND answer_seq <= last_seq",
            )
            .and_then(|mut select| select.exists([self.conversation, self.session, self.through, END]))
            .translated()
    }

    /// The transcript in its own conversation up to the end of a completed turn.
    pub(crate) fn up_to(connection: &Connection, tenant: TenantId, turn: TurnId) -> StoreResult<Option<Self>> {
        connection
            .prepare_cached(
                "SELECT t.conversation_pk, t.session_pk, t.last_seq FROM turns t
                 JOIN conversations c ON c.pk = t.conversation_pk AND c.deleted = 0
                 WHERE t.id = ?1 AND t.tenant_pk = ?2 AND t.state = 'completed' AND t.first_seq IS NOT NULL",
            )
            .and_then(|mut select| select.query_row(params![turn.uuid().as_bytes(), tenant.0], Self::read).optional())
            .translated()
    }

    /// What a branch inherits of its direct source.
    pub(crate) fn inherited(connection: &Connection, conversation: i64) -> StoreResult<Option<Self>> {
        connection
            .prepare_cached(
                "SELECT b.conversation_pk, b.pk, r.base_seq FROM conversations c JOIN sessions r ON r.pk = c.root_pk
                 JOIN sessions b ON b.pk = r.base_session_pk WHERE c.pk = ?1",
            )
            .and_then(|mut select| select.query_row([conversation], Self::read).optional())
            .translated()
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { conversation: row.get(0)?, session: row.get(1)?, through: row.get(2)? })
    }
}

/// The parts of a transcript, its own part last. Sessions and places increase along it.
pub(crate) struct Lineage(Vec<Segment>);

impl Lineage {
    /// The parts of a conversation's transcript that can have messages after `place`.
    pub(crate) fn after(connection: &Connection, state: &ConversationState, place: i64) -> StoreResult<Self> {
        Self::of(connection, state, state.head, END, place)
    }

    /// The same, as it was when `session` and `through` were the last, for messages after `after`.
    pub(crate) fn of(
        connection: &Connection,
        state: &ConversationState,
        session: i64,
        through: i64,
        after: i64,
    ) -> StoreResult<Self> {
        let mut segments = vec![Segment { conversation: state.key, session, through }];
        if state.facts.origin_kind == SessionKind::Branch {
            let mut conversation = state.key;
            while let Some(source) = Segment::inherited(connection, conversation)?.filter(|it| it.through > after) {
                conversation = source.conversation;
                segments.push(source);
            }
            segments.reverse();
        }
        Ok(Self(segments))
    }

    /// The parts of a conversation's transcript up to `last` that can have messages after `after`.
    pub(crate) fn to(
        connection: &Connection,
        state: &ConversationState,
        last: Segment,
        after: i64,
    ) -> StoreResult<Self> {
        match last.conversation == state.key {
            true => Self::of(connection, state, last.session, last.through, after),
            false => Ok(Self::after(connection, state, after)?.up_to(last)),
        }
    }

    /// The same transcript, as it was at the end of one of its parts.
    pub(crate) fn up_to(self, last: Segment) -> Self {
        let before = self.0.into_iter().take_while(|segment| segment.conversation != last.conversation);
        Self(before.chain([last]).collect())
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The conversation that stores a place.
    pub(crate) fn holder(&self, place: i64) -> Option<i64> {
        self.0.iter().find(|segment| place <= segment.through).map(|segment| segment.conversation)
    }

    /// Whether a model ever answered in it: [`Segment::has_answer`] is the rule.
    pub(crate) fn has_answer(&self, connection: &Connection) -> StoreResult<bool> {
        for segment in &self.0 {
            if segment.has_answer(connection)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The first session, from `from` on, that has a message after `place`.
    pub(crate) fn first_after(&self, connection: &Connection, place: i64, from: i64) -> StoreResult<Option<i64>> {
        let mut select = connection
            .prepare_cached(
                "SELECT s.pk FROM sessions s JOIN messages m ON m.session_pk = s.pk WHERE s.conversation_pk = ?1
                 AND s.pk BETWEEN ?2 AND ?3 AND m.seq > ?4 AND m.seq <= ?5 AND m.turn_pk > 0 ORDER BY s.pk LIMIT 1",
            )
            .translated()?;
        for segment in &self.0 {
            let range = [segment.conversation, from, segment.session, place, segment.through];
            if let Some(first) = select.query_row(range, |row| row.get(0)).optional().translated()? {
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// How many messages it has.
    pub(crate) fn count(&self, connection: &Connection) -> StoreResult<i64> {
        let mut select = connection
            .prepare_cached(
                "SELECT count(*) FROM sessions s JOIN messages m ON m.session_pk = s.pk
                 WHERE s.conversation_pk = ?1 AND s.pk <= ?2 AND m.seq <= ?3 AND m.compaction_pk IS NULL",
            )
            .translated()?;
        let mut count = 0;
        for segment in &self.0 {
            count += select
                .query_row([segment.conversation, segment.session, segment.through], |row| row.get::<_, i64>(0))
                .translated()?;
        }
        Ok(count)
    }
}

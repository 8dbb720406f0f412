//! Rows of conversations and sessions, as lists show them.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use herma_model::alias::Namespace;
use herma_model::{Alias, EditorSettings, EndReason, KeyScope, SessionFacts, Timestamp, ToolMode};
use herma_store::{ConversationRow, Pin, Scope};
use rusqlite::{CachedStatement, Connection, Row};

use crate::failure::{StoreResult, Translate};
use crate::rows::{self, SESSION};
use crate::snapshot::{self, STATE, STATE_WIDTH, Sessions};
use crate::usage::{HAS_CHILDREN, SPENDING, SPENDING_WIDTH, Spending, Trees};

const ROW: &str = "c.title, c.source, c.metadata, c.archived, c.created_at, c.updated_at, c.ended_at, c.end_reason, \
     c.message_count, c.turn_count, c.parent_tool_call, c.cwd, c.tool_mode, c.chosen_model";

/// How many columns [`ROW`] has.
const ROW_WIDTH: usize = 14;

/// Where [`SPENDING`] begins.
const SPENT: usize = STATE_WIDTH + ROW_WIDTH;

/// One conversation.
pub(crate) fn conversation(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    pin: Pin,
) -> StoreResult<Option<ConversationRow>> {
    let Some((state, session)) = snapshot::visible(connection, scope, alias, Namespace::Session)? else {
        return Ok(None);
    };
    let found = by_key(connection, &scope.keys, state.key)?;
    match (pin, session) {
        (Pin::Exact, Some(session)) => Ok(Some(OneSession::by_key(connection, session)?.within(found))),
        _ => Ok(Some(found)),
    }
}

/// A conversation that is known to exist, at its head. Its sums leave out children that `keys` does not see.
pub(crate) fn by_key(connection: &Connection, keys: &KeyScope, conversation: i64) -> StoreResult<ConversationRow> {
    Conversations::of(connection, keys)?.by_key(conversation)
}

/// Reads conversations that are known to exist, one after the other, each at its head.
pub(crate) struct Conversations<'c> {
    select: CachedStatement<'c>,
    sessions: Sessions<'c>,
    trees: Trees<'c>,
}

impl<'c> Conversations<'c> {
    pub(crate) fn of(connection: &'c Connection, keys: &'c KeyScope) -> StoreResult<Self> {
        static BY_KEY: LazyLock<String> = LazyLock::new(|| {
            format!("SELECT {STATE}, {ROW}, {SPENDING}, {HAS_CHILDREN} FROM conversations c WHERE c.pk = ?1")
        });
        let select = connection.prepare_cached(&BY_KEY).translated()?;
        Ok(Self { select, sessions: Sessions::of(connection).translated()?, trees: Trees::of(connection, keys) })
    }

    pub(crate) fn by_key(&mut self, conversation: i64) -> StoreResult<ConversationRow> {
        let Self { select, sessions, trees } = self;
        let (found, has_children): (_, bool) = select
            .query_row([conversation], |row| Ok((read(sessions, row)?, row.get(SPENT + SPENDING_WIDTH)?)))
            .translated()?;
        if !has_children {
            return Ok(found);
        }
        let own = Spending { usage: found.usage_tree, cost: found.cost };
        let Spending { usage: usage_tree, cost } = trees.sum(conversation, own)?;
        Ok(ConversationRow { usage_tree, cost, ..found })
    }
}

/// The sessions of a conversation in one order, after session `begun` if that is not 0.
pub(crate) struct Selection {
    pub(crate) conversation: i64,
    pub(crate) is_ascending: bool,
    pub(crate) begun: i64,
}

/// The fields of a session that are not its conversation's.
pub(crate) struct OneSession {
    pub(crate) key: i64,
    pub(crate) conversation: i64,
    pub(crate) parent: Option<i64>,
    pub(crate) facts: SessionFacts,
    created_at: Timestamp,
    ended: Option<(Timestamp, EndReason)>,
}

const ONE_SESSION: &str = "s.pk, s.parent_pk, s.created_at, s.ended_at, s.end_reason, s.conversation_pk";

impl Selection {
    /// Calls back with one session after the other until the callback breaks.
    pub(crate) fn each(
        &self,
        connection: &Connection,
        mut take: impl FnMut(OneSession) -> StoreResult<ControlFlow<()>>,
    ) -> StoreResult<ControlFlow<()>> {
        let (direction, beyond) = if self.is_ascending { ("ASC", ">") } else { ("DESC", "<") };
        let begun = if self.begun == 0 && !self.is_ascending { i64::MAX } else { self.begun };
        let mut select = connection
            .prepare_cached(&format!(
                "SELECT {SESSION}, {ONE_SESSION} FROM sessions s WHERE s.conversation_pk = ?1 AND s.pk {beyond} ?2
                 ORDER BY s.pk {direction}"
            ))
            .translated()?;
        let mut sessions = select.query([self.conversation, begun]).translated()?;
        while let Some(row) = sessions.next().translated()? {
            if take(OneSession::read(row).translated()?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl OneSession {
    /// Selects a session by its key, for [`Self::read`].
    pub(crate) fn select() -> &'static str {
        static BY_KEY: LazyLock<String> =
            LazyLock::new(|| format!("SELECT {SESSION}, {ONE_SESSION} FROM sessions s WHERE s.pk = ?1"));
        &BY_KEY
    }

    /// A session that is known to exist.
    fn by_key(connection: &Connection, session: i64) -> StoreResult<Self> {
        connection
            .prepare_cached(Self::select())
            .and_then(|mut select| select.query_row([session], Self::read))
            .translated()
    }

    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            facts: rows::session(row, 0)?,
            key: row.get(7)?,
            parent: row.get(8)?,
            created_at: Timestamp(row.get(9)?),
            ended: ended(row, 10)?,
            conversation: row.get(12)?,
        })
    }

    /// The row of its conversation, at this session and with the session's times.
    pub(crate) fn row(self, conversation: ConversationRow) -> ConversationRow {
        let updated_at = self.ended.map_or(conversation.updated_at, |(at, _)| at);
        let created_at = self.created_at;
        ConversationRow { created_at, updated_at, ..self.within(conversation) }
    }

    fn within(self, conversation: ConversationRow) -> ConversationRow {
        ConversationRow { ended: self.ended.or(conversation.ended), session: self.facts, ..conversation }
    }
}

fn ended(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<(Timestamp, EndReason)>> {
    let when: Option<i64> = row.get(at)?;
    Ok(when.map(Timestamp).zip(rows::optional_word(row, at + 1, EndReason::parse)?))
}

/// Reads a row as if the conversation had no children.
fn read(sessions: &mut Sessions<'_>, row: &Row<'_>) -> rusqlite::Result<ConversationRow> {
    const AT: usize = STATE_WIDTH;
    let state = sessions.state(row)?;
    let Spending { usage: usage_tree, cost } = Spending::read(row, SPENT)?;
    Ok(ConversationRow {
        revision: state.revision(),
        session: state.facts.head.clone(),
        running: state.running.is_some(),
        facts: state.facts,
        title: row.get(AT)?,
        source: rows::text(row, AT + 1)?,
        metadata: rows::optional_text(row, AT + 2)?,
        archived: row.get(AT + 3)?,
        created_at: Timestamp(row.get(AT + 4)?),
        updated_at: Timestamp(row.get(AT + 5)?),
        ended: ended(row, AT + 6)?,
        message_count: rows::count(row, AT + 8)?,
        turn_count: rows::count(row, AT + 9)?,
        parent_tool_call_id: rows::optional_text(row, AT + 10)?,
        editor: EditorSettings {
            cwd: rows::optional_text(row, AT + 11)?,
            mode: rows::optional_word(row, AT + 12, ToolMode::parse)?,
            model: rows::optional_text(row, AT + 13)?,
        },
        usage: rows::usage(row, SPENT)?,
        usage_tree,
        cost,
    })
}

//! Ending a turn on its owner's behalf: its process is gone, or it did not yield to an interrupt.

use herma_model::message::Utterance;
use herma_model::turn::FailureCode;
use herma_model::{MessageId, NewMessage, Timestamp, TurnId};
use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::commit::insert_message;
use crate::failure::{Outcome, Translate};
use crate::instance::Instance;
use crate::rows::{self, ConversationState};

/// Why a turn is ended by somebody else.
#[derive(Clone, Copy)]
pub(crate) enum Why {
    /// Its owner is gone.
    OwnerGone,
    /// It did not yield to an interrupt.
    Interrupted,
}

impl Why {
    const fn code(self) -> FailureCode {
        match self {
            Self::OwnerGone => FailureCode::Abandoned,
            Self::Interrupted => FailureCode::Interrupted,
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::OwnerGone => "the process that ran this turn ended; send the request again",
            Self::Interrupted => "another turn interrupted this one",
        }
    }
}

/// A turn that holds a lease.
pub(crate) struct LiveTurn {
    pub(crate) key: i64,
    pub(crate) id: TurnId,
    /// When it was asked to stop.
    pub(crate) stop_requested: Option<Timestamp>,
}

/// The turn that holds a conversation's lease, if it still does. A dead owner's turn is ended here.
pub(crate) fn live_turn(
    connection: &Connection,
    instance: &Instance,
    state: &mut ConversationState,
    now: Timestamp,
) -> Outcome<Option<LiveTurn>> {
    let Some(key) = state.running else { return Ok(None) };
    let (owner, live) = connection
        .prepare_cached("SELECT owner, id, stop_requested FROM turns WHERE pk = ?1")
        .and_then(|mut select| {
            select.query_row([key], |row| {
                let id = TurnId::from_uuid(rows::uuid(row, 1)?);
                let stop_requested = row.get::<_, Option<i64>>(2)?.map(Timestamp);
                Ok((row.get(0)?, LiveTurn { key, id, stop_requested }))
            })
        })
        .translated()?;
    if instance.is_dead(connection, owner, key, now)? {
        take_over(connection, state, key, Why::OwnerGone, now)?;
        return Ok(None);
    }
    Ok(Some(live))
}

/// Records the running turn as interrupted, with what its journal says was shown, and frees the lease.
pub(crate) fn take_over(
    connection: &Connection,
    state: &mut ConversationState,
    turn: i64,
    why: Why,
    now: Timestamp,
) -> Outcome<()> {
    let (attempt, session): (u32, i64) = connection
        .prepare_cached("SELECT attempt, session_pk FROM turns WHERE pk = ?1")
        .and_then(|mut select| select.query_row([turn], |row| Ok((row.get(0)?, row.get(1)?))))
        .translated()?;
    let shown = journal(connection, turn)?;
    if !shown.is_empty() {
        let partial = NewMessage { id: MessageId::from_uuid(Uuid::now_v7()), said: Utterance::partial_text(&shown) };
        insert_message(connection, session, state.next_seq, turn, attempt, &partial, now)?;
        state.next_seq += 1;
    }
    connection
        .prepare_cached(
            "UPDATE turns SET state = 'interrupted', failure_code = ?2, failure_message = ?3, ended_at = ?4 WHERE pk = ?1",
        )
        .and_then(|mut update| update.execute(params![turn, why.code().as_str(), why.message(), now.0]))
        .translated()?;
    clear_journal(connection, turn)?;
    state.running = None;
    state.version += 1;
    connection
        .prepare_cached(
            "UPDATE conversations SET running_turn = NULL, version = ?2, message_count = message_count + (?3 - next_seq), next_seq = ?3,
             updated_at = ?4 WHERE pk = ?1",
        )
        .and_then(|mut update| update.execute(params![state.key, state.version, state.next_seq, now.0]))
        .map(drop)
        .translated()
}

fn journal(connection: &Connection, turn: i64) -> Outcome<String> {
    let mut select =
        connection.prepare_cached("SELECT text FROM turn_journal WHERE turn_pk = ?1 ORDER BY part").translated()?;
    let parts = select.query_map([turn], |row| row.get::<_, String>(0)).translated()?;
    parts.collect::<rusqlite::Result<String>>().translated()
}

/// Drops a turn's journal once the turn has ended.
pub(crate) fn clear_journal(connection: &Connection, turn: i64) -> Outcome<()> {
    connection
        .prepare_cached("DELETE FROM turn_journal WHERE turn_pk = ?1")
        .and_then(|mut delete| delete.execute([turn]))
        .map(drop)
        .translated()
}

/// Adds shown text to a running turn's journal.
pub(crate) fn append_journal(connection: &Connection, turn: i64, fence: i64, text: &str) -> Outcome<()> {
    connection
        .prepare_cached(
            "INSERT INTO turn_journal (turn_pk, part, text)
             SELECT pk, (SELECT coalesce(max(part) + 1, 0) FROM turn_journal WHERE turn_pk = ?1), ?3 FROM turns WHERE pk = ?1 AND fence = ?2 AND state = 'running'",
        )
        .and_then(|mut insert| insert.execute(params![turn, fence, text]))
        .map(drop)
        .translated()
}

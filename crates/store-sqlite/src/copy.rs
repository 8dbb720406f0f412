//! Exports conversations and restores them.
//!
//! - `read`: a stored conversation, or what a branch inherits of it, as pieces without row keys.
//! - `restore`: whether a conversation can be restored, and what must exist for it.
//! - `measure`: whether a copy is plausible.
//! - `row`: the conversation's own row.
//! - `write`: the rows of all pieces. Imports use it too.
//!
//! What a branch inherits is restored as a deleted conversation: only the branch sees it, until it is restored itself.

mod measure;
mod read;
mod restore;
mod row;
mod turns;
mod write;

use herma_model::Alias;
use herma_model::alias::Namespace;
use herma_model::copy::Piece;
use herma_store::{Scope, StoreError};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::restore::{Halt, restore};
pub(crate) use self::write::PieceWriter;
use crate::failure::{StoreResult, Translate};
use crate::lineage::{Lineage, Segment};
use crate::{rewinds, snapshot};

/// How many pieces may wait for the receiver. Each may be as large as a message.
pub(crate) const WAITING: usize = 4;

/// Sends whether the conversation exists and is inherited, then sends its pieces.
pub(crate) fn out(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    found: oneshot::Sender<Option<bool>>,
    taker: &mpsc::Sender<Result<Piece, StoreError>>,
) -> StoreResult<()> {
    let state = snapshot::visible(connection, scope, alias, Namespace::Session)?;
    let Some(state) = state.map(|(state, _)| state).filter(|state| !state.provisional) else {
        let _ = found.send(None);
        return Ok(());
    };
    let _ = found.send(Some(is_inherited(connection, state.key)?));
    let mut hand_out = |piece| taker.blocking_send(Ok(piece)).map_err(|_| StoreError::Closed);
    // From -1, to include sources of which nothing is inherited: a branch may begin where its source does.
    let lineage = Lineage::after(connection, &state, -1)?;
    let sources = lineage.segments().split_last().map_or(&[][..], |(_, sources)| sources);
    let rewinds = rewinds::of(connection, state.key)?;
    for source in sources {
        read::source(connection, *source, &rewinds, &mut hand_out)?;
    }
    read::conversation(connection, Segment::whole(state.key), &mut hand_out)
}

fn is_inherited(connection: &Connection, conversation: i64) -> StoreResult<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM sessions s JOIN sessions b ON b.base_session_pk = s.pk AND b.kind = 'branch'
             WHERE s.conversation_pk = ?1",
        )
        .and_then(|mut select| select.exists([conversation]))
        .translated()
}

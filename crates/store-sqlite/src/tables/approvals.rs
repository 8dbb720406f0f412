//! The tables `parked_turns`, `approvals` and `grants`.

use herma_model::{OwnCall, Timestamp};
use herma_store::{AskedCall, Park};
use rusqlite::{Connection, params};

use crate::failure::{StoreResult, Translate};

/// Stores a parked turn with its questions. The message that makes the calls lies before the place `before`.
pub(crate) fn insert_parked(connection: &Connection, park: &Park, before: i64) -> StoreResult<()> {
    let turn = park.lease.turn;
    connection
        .execute(
            "INSERT INTO parked_turns (turn_pk, request, parked_at) VALUES (?1, ?2, ?3)",
            params![turn, park.request, park.now.0],
        )
        .translated()?;
    let mut insert = connection
        .prepare_cached(
            "INSERT INTO approvals (turn_pk, place, before_seq, call_id, server, tool, asks, waits, name, arguments,
             asked_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )
        .translated()?;
    for (place, AskedCall { call, name, arguments }) in (0_i64..).zip(&park.asks) {
        insert
            .execute(params![
                turn,
                place,
                before,
                &*call.id,
                call.server,
                call.tool,
                call.asks,
                call.waits,
                name,
                arguments,
                park.now.0
            ])
            .translated()?;
    }
    Ok(())
}

/// Grants a call's tool to a conversation, or to the whole tenant. Keeps an older grant.
pub(crate) fn insert_grant(
    connection: &Connection,
    tenant: i64,
    conversation: Option<i64>,
    call: &OwnCall,
    now: Timestamp,
) -> StoreResult<()> {
    connection
        .execute(
            "INSERT INTO grants (tenant_pk, conversation_pk, server, tool, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO NOTHING",
            params![tenant, conversation, call.server, call.tool, now.0],
        )
        .map(drop)
        .translated()
}

//! Receipts of erasures: numbers that can be read later, and whether text is still in a file.

use herma_model::{ErasureId, KeyScope, TenantId, Timestamp};
use herma_store::erasure::KEPT_RECEIPTS;
use herma_store::{AskedBy, ErasureReceipt, Removed, Scope, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;

use crate::erase::leftovers::Leftovers;
use crate::failure::{StoreResult, Translate};

/// Writes a receipt, or replaces the numbers of the one with this id. Called in each transaction of an erasure, so that
/// a crash between two of them leaves a receipt that is pending.
pub(crate) fn write(
    connection: &Connection,
    id: ErasureId,
    tenant: TenantId,
    by: AskedBy,
    removed: &Removed,
    now: Timestamp,
) -> StoreResult<()> {
    let removed = serde_json::to_string(removed)
        .map_err(|error| StoreError::Failed(format!("the numbers of an erasure are no JSON: {error}")))?;
    connection
        .prepare_cached(
            "INSERT INTO erasures (id, tenant_pk, asked_by, created_at, removed, forget_through)
             VALUES (?1, ?2, ?3, ?4, ?5, (SELECT coalesce(max(pk), 0) FROM search_forget))
             ON CONFLICT (id) DO UPDATE SET removed = excluded.removed, forget_through = excluded.forget_through,
             scrubbed = 0",
        )
        .and_then(|mut insert| {
            let by = by.0.map(|key| key.uuid().into_bytes());
            insert.execute(params![id.uuid().as_bytes(), tenant.0, by, now.0, removed])
        })
        .translated()?;
    connection
        .prepare_cached(
            "DELETE FROM erasures WHERE tenant_pk = ?1 AND scrubbed = 1
             AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.erasure = erasures.id) AND pk <=
             (SELECT pk FROM erasures WHERE tenant_pk = ?1 ORDER BY pk DESC LIMIT 1 OFFSET ?2)",
        )
        .and_then(|mut delete| delete.execute(params![tenant.0, KEPT_RECEIPTS as i64]))
        .map(drop)
        .translated()
}

/// Adds what the second reading has found.
pub(crate) fn settle(connection: &Connection, id: ErasureId, found: Leftovers) -> StoreResult<()> {
    connection
        .execute(
            "UPDATE erasures SET left_over = ?2, kept = ?3 WHERE id = ?1",
            params![id.uuid().as_bytes(), found.left.cast_signed(), found.kept.cast_signed()],
        )
        .map(drop)
        .translated()
}

/// A receipt as it is now, if this caller may read it.
pub(crate) fn find(
    connection: &Connection,
    scope: &Scope,
    by: AskedBy,
    id: ErasureId,
) -> StoreResult<Option<ErasureReceipt>> {
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS}, asked_by FROM erasures WHERE id = ?1 AND tenant_pk = ?2"))
        .and_then(|mut select| {
            let read = |row: &Row<'_>| Ok((receipt(row)?, row.get::<_, Option<[u8; 16]>>(5)?));
            select.query_row(params![id.uuid().as_bytes(), scope.tenant.0], read).optional()
        })
        .translated()?;
    let may_read = |asked: Option<[u8; 16]>| {
        scope.keys == KeyScope::All || asked.is_some() && asked == by.0.map(|key| key.uuid().into_bytes())
    };
    Ok(found.filter(|(_, asked)| may_read(*asked)).map(|(receipt, _)| receipt))
}

/// A receipt as it is now, for the process that has made it.
pub(crate) fn own(connection: &Connection, id: ErasureId) -> StoreResult<ErasureReceipt> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM erasures WHERE id = ?1"))
        .and_then(|mut select| select.query_row([id.uuid().as_bytes()], receipt))
        .translated()
}

/// Columns of a receipt. What is pending: the files, each row that the search index has not forgotten yet, and what an
/// outside memory provider has still to forget.
const COLUMNS: &str = "id, removed, coalesce(left_over, 0), coalesce(kept, 0), (scrubbed = 0) +
    (SELECT count(*) FROM outbox o WHERE o.erasure = erasures.id) +
    CASE WHEN scrubbed = 0 THEN (SELECT count(*) FROM search_forget WHERE pk <= forget_through) ELSE 0 END";

fn receipt(row: &Row<'_>) -> rusqlite::Result<ErasureReceipt> {
    let removed = serde_json::from_str(row.get_ref(1)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, error.into()))?;
    let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
    Ok(ErasureReceipt {
        id: ErasureId::from_uuid(Uuid::from_bytes(row.get(0)?)),
        conversation: None,
        removed,
        left: number(2)?,
        kept: number(3)?,
        pending: number(4)?,
    })
}

/// The newest receipt whose text may be in a file, but in no row any more. `None` if there is none.
pub(crate) fn ready_to_scrub(connection: &Connection) -> StoreResult<Option<i64>> {
    connection
        .prepare_cached(
            "SELECT max(pk) FROM erasures INDEXED BY erasures_pending WHERE scrubbed = 0
             AND forget_through < (SELECT coalesce(min(pk), 9223372036854775807) FROM search_forget)",
        )
        .and_then(|mut select| select.query_row([], |row| row.get(0)))
        .translated()
}

/// Notes that no file has the text of these receipts any more.
pub(crate) fn mark_scrubbed(connection: &Connection, through: i64) -> StoreResult<()> {
    connection
        .execute(
            "UPDATE erasures SET scrubbed = 1 WHERE scrubbed = 0 AND pk <= ?1
                  AND forget_through < (SELECT coalesce(min(pk), 9223372036854775807) FROM search_forget)",
            [through],
        )
        .map(drop)
        .translated()
}

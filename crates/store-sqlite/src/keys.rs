//! Tenants and API keys.

use std::sync::Arc;

use herma_model::{ApiKeyId, KeyLimits, KeyScope, Principal, TenantId, Timestamp};
use herma_store::{ApiKeyRow, KeyHash, NewApiKey};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::failure::{StoreResult, Translate};
use crate::rows;

/// The tenant of this name. Made if it is new.
pub(crate) fn ensure_tenant(connection: &Connection, name: &str, now: Timestamp) -> StoreResult<TenantId> {
    connection
        .execute(
            "INSERT INTO tenants (name, created_at) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
            params![name, now.0],
        )
        .translated()?;
    find_tenant(connection, name).and_then(|found| {
        found.ok_or_else(|| herma_store::StoreError::Unavailable("a tenant vanished while it was made".to_owned()))
    })
}

/// The tenant of this name, if there is one.
pub(crate) fn find_tenant(connection: &Connection, name: &str) -> StoreResult<Option<TenantId>> {
    connection
        .query_row("SELECT pk FROM tenants WHERE name = ?1", [name], |row| row.get(0).map(TenantId))
        .optional()
        .translated()
}

/// The names of all tenants, oldest first. Erased ones have none.
pub(crate) fn tenants(connection: &Connection) -> StoreResult<Vec<Arc<str>>> {
    let mut select =
        connection.prepare("SELECT name FROM tenants WHERE erased = 0 ORDER BY created_at, pk").translated()?;
    let names = select.query_map([], |row| rows::text(row, 0)).translated()?;
    names.collect::<rusqlite::Result<_>>().translated()
}

/// Stores a key.
pub(crate) fn create(connection: &Connection, key: &NewApiKey) -> StoreResult<()> {
    connection
        .execute(
            "INSERT INTO api_keys
                 (id, tenant_pk, hash, hint, session_keys, created_at, read_only, expires_at, rate, max_turns)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                key.id.uuid().as_bytes(),
                key.tenant.0,
                &key.hash.0,
                key.hint,
                key.session_keys.to_stored(),
                key.now.0,
                key.limits.read_only,
                key.limits.expires_at.map(|end| end.0),
                key.limits.rate.map(|rate| rate.to_string()),
                key.limits.max_turns
            ],
        )
        .map(drop)
        .translated()
}

/// All keys, oldest first.
pub(crate) fn list(connection: &Connection) -> StoreResult<Vec<ApiKeyRow>> {
    let mut select = connection
        .prepare(
            "SELECT k.id, t.name, k.hint, k.session_keys, k.created_at, k.revoked_at,
                    k.read_only, k.expires_at, k.rate, k.max_turns
             FROM api_keys k JOIN tenants t ON t.pk = k.tenant_pk
             ORDER BY k.created_at, k.id",
        )
        .translated()?;
    let rows = select
        .query_map([], |row| {
            Ok(ApiKeyRow {
                id: ApiKeyId::from_uuid(rows::uuid(row, 0)?),
                tenant_name: rows::text(row, 1)?,
                hint: row.get(2)?,
                session_keys: KeyScope::parse(row.get_ref(3)?.as_str_or_null()?),
                created_at: Timestamp(row.get(4)?),
                revoked_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
                limits: limits(row, 6)?,
            })
        })
        .translated()?;
    rows.collect::<rusqlite::Result<_>>().translated()
}

/// Revokes a key that is still valid.
pub(crate) fn revoke(connection: &Connection, id: ApiKeyId, now: Timestamp) -> StoreResult<bool> {
    connection
        .execute(
            "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
            params![id.uuid().as_bytes(), now.0],
        )
        .map(|changed| changed == 1)
        .translated()
}

/// The principal of a key that is not revoked. It may have expired.
pub(crate) fn principal_of(connection: &Connection, hash: KeyHash) -> StoreResult<Option<Principal>> {
    connection
        .prepare_cached(
            "SELECT k.id, k.tenant_pk, t.name, k.session_keys, k.read_only, k.expires_at, k.rate, k.max_turns
             FROM api_keys k JOIN tenants t ON t.pk = k.tenant_pk
             WHERE k.hash = ?1 AND k.revoked_at IS NULL",
        )
        .and_then(|mut select| {
            select
                .query_row([&hash.0], |row| {
                    Ok(Principal {
                        key: Some(ApiKeyId::from_uuid(rows::uuid(row, 0)?)),
                        tenant: TenantId(row.get(1)?),
                        tenant_name: Arc::from(row.get_ref(2)?.as_str()?),
                        session_keys: KeyScope::parse(row.get_ref(3)?.as_str_or_null()?),
                        limits: limits(row, 4)?,
                    })
                })
                .optional()
        })
        .translated()
}

/// The limits of a key, in four columns from this one on.
fn limits(row: &Row<'_>, first: usize) -> rusqlite::Result<KeyLimits> {
    Ok(KeyLimits {
        read_only: row.get(first)?,
        expires_at: row.get::<_, Option<i64>>(first + 1)?.map(Timestamp),
        rate: rows::optional_word(row, first + 2, |rate| rate.parse().ok())?,
        max_turns: row.get(first + 3)?,
    })
}

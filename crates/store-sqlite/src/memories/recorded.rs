//! Which turns may be remembered.
//!
//! A turn says so in its row of `recalls`, at its end. Without a row, a turn of a person is recorded if it was
//! completed, failed or was cancelled. No other turn is. One that has not ended may still say that it is not recorded.
//! One that was interrupted, because its process died for example, may not have been able to say so.

use herma_model::{ConversationId, Seq, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::lineage::Lineage;
use crate::snapshot;

/// Whether a message may be remembered, from its turn `t` and the turn's row `r`, if there are such, and its
/// conversation `c`. Messages of other sources have no turn.
pub(crate) const RECORDED: &str = "coalesce(r.recorded,
     (t.state IS NULL OR t.state = 'completed' OR t.state = 'failed' OR t.state = 'cancelled')
     AND (c.origin_kind = 'main' OR c.origin_kind = 'branch'))";

/// Whether all messages of a conversation up to a place may be remembered. `true` if it does not exist.
pub(crate) fn all_through(
    connection: &Connection,
    tenant: TenantId,
    id: ConversationId,
    through: Seq,
) -> StoreResult<bool> {
    let conversation: Option<i64> = connection
        .prepare_cached("SELECT pk FROM conversations WHERE id = ?1 AND tenant_pk = ?2")
        .and_then(|mut select| select.query_row(params![id.uuid().as_bytes(), tenant.0], |row| row.get(0)).optional())
        .translated()?;
    let Some(conversation) = conversation else { return Ok(true) };
    let state = snapshot::load(connection, conversation)?;
    all_of(connection, &Lineage::after(connection, &state, 0)?, through)
}

/// Whether all messages of a transcript up to a place may be remembered.
pub(crate) fn all_of(connection: &Connection, lineage: &Lineage, through: Seq) -> StoreResult<bool> {
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT 1 FROM sessions s CROSS JOIN messages m ON m.session_pk = s.pk
             CROSS JOIN conversations c ON c.pk = s.conversation_pk LEFT JOIN turns t ON t.pk = m.turn_pk
             LEFT JOIN recalls r ON r.turn_pk = m.turn_pk
             WHERE s.conversation_pk = ?1 AND s.pk <= ?2 AND m.seq <= min(?3, ?4) AND m.compaction_pk IS NULL
             AND NOT {RECORDED}"
        ))
        .translated()?;
    for segment in lineage.segments() {
        let range = [segment.conversation, segment.session, segment.through, through.0];
        if select.exists(range).translated()? {
            return Ok(false);
        }
    }
    Ok(true)
}

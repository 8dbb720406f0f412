//! Connects an imported conversation to its parent, as soon as both exist.

use herma_model::Alias;
use herma_model::alias::Namespace;
use herma_store::{Import, ImportedConversation};
use rusqlite::{Connection, params};

use crate::failure::{StoreResult, Translate};
use crate::{parent, snapshot};

/// Stores the key of a conversation's parent beside its name. A parent that does not exist, or that descends from this
/// conversation, stays a name only. So does a conversation of that name that did not come from the same file, unless it
/// is the parent that was deleted here before.
pub(super) fn link(
    connection: &Connection,
    import: &Import,
    new: &ImportedConversation,
    conversation: i64,
) -> StoreResult<()> {
    let Some((name, _)) = &new.parent else { return Ok(()) };
    let Ok(alias) = Alias::parse(name.as_str()) else { return Ok(()) };
    let found = snapshot::find(connection, import.tenant, &alias, Namespace::Session)?;
    let Some((state, session)) = found else { return Ok(()) };
    if parent::comes_from(connection, state.key, conversation)?
        || !is_meant(connection, import, state.key, conversation)?
    {
        return Ok(());
    }
    let session = session.unwrap_or(state.head);
    connection
        .prepare_cached("UPDATE conversations SET parent_pk = ?2 WHERE pk = ?1 AND parent_pk IS NULL")
        .and_then(|mut update| update.execute(params![conversation, state.key]))
        .translated()?;
    connection
        .prepare_cached(
            "UPDATE sessions SET parent_pk = ?2, missing_parent = NULL WHERE parent_pk IS NULL
             AND pk = (SELECT root_pk FROM conversations WHERE pk = ?1)",
        )
        .and_then(|mut update| update.execute(params![conversation, session]))
        .translated()?;
    Ok(())
}

/// Whether a conversation is the parent that is meant, and does not only have its name.
fn is_meant(connection: &Connection, import: &Import, parent: i64, child: i64) -> StoreResult<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM conversations c JOIN sessions r ON r.pk = c.root_pk JOIN conversations p ON p.pk = ?1
             WHERE c.pk = ?2
             AND (r.missing_parent = p.id
             OR EXISTS (SELECT 1 FROM imports i WHERE i.conversation_pk = p.pk AND i.tenant_pk = ?3 AND i.file = ?4))",
        )
        .and_then(|mut select| select.exists(params![parent, child, import.tenant.0, import.file]))
        .translated()
}

//! Conversations without a turn: making one, and changing what its client says about it.

use herma_model::alias::Namespace;
use herma_model::{Alias, Timestamp};
use herma_store::{Change, ConversationRow, CreateOutcome, NewConversation, Scope};
use rusqlite::{Connection, params};

use crate::conversation::{self, Making};
use crate::failure::{Outcome, Translate};
use crate::{listing, snapshot};

/// Makes a conversation, or nothing if its name is not free.
pub(crate) fn create(connection: &Connection, new: &NewConversation) -> Outcome<CreateOutcome> {
    if let Some(alias) = &new.alias {
        if snapshot::find(connection, new.scope.tenant, alias, Namespace::Session)?.is_some() {
            return Ok(CreateOutcome::Exists);
        }
        if !alias.may_be_created() {
            return Ok(CreateOutcome::Reserved);
        }
    }
    let making = Making {
        tenant: new.scope.tenant,
        creation: &new.creation,
        name: new.alias.as_ref().map(|alias| (alias, Namespace::Session)),
        session_key: new.session_key.as_ref(),
        metadata: new.metadata.as_deref(),
        now: new.now,
    };
    let state = conversation::make(connection, &making)?;
    listing::by_key(connection, state.key).map(Box::new).map(CreateOutcome::Made)
}

/// Changes what is said about a conversation. A turn notices nothing, so the version stays.
pub(crate) fn update(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    change: &Change,
    now: Timestamp,
) -> Outcome<Option<ConversationRow>> {
    let found = snapshot::visible(connection, scope, alias, Namespace::Session)?;
    let Some((state, _)) = found.filter(|(state, _)| !state.unmade) else { return Ok(None) };
    connection
        .prepare_cached("UPDATE conversations SET metadata = coalesce(?2, metadata), updated_at = ?3 WHERE pk = ?1")
        .and_then(|mut update| update.execute(params![state.key, change.metadata, now.0]))
        .translated()?;
    listing::by_key(connection, state.key).map(Some)
}

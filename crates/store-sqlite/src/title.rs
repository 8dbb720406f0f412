//! What a conversation is called: given by somebody, or made for one that nobody gave a title. The index of the search follows by triggers.

use herma_model::{ConversationId, Happening, TenantId, Timestamp};
use herma_store::MadeTitle;
use rusqlite::{Connection, OptionalExtension, params};

use crate::failure::{StoreResult, Translate};
use crate::{events, snapshot};

/// Gives a conversation the title that somebody wants, or takes it away for good.
pub(crate) fn set(connection: &Connection, conversation: i64, title: Option<&str>) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE conversations SET title = ?2, nameless = ?2 IS NULL, title_is_excerpt = 0 WHERE pk = ?1",
        )
        .and_then(|mut update| update.execute(params![conversation, title]))
        .map(drop)
        .translated()
}

/// Gives a conversation a title that was made for it, unless it has one or is to have none. Says whether it did.
pub(crate) fn make(connection: &Connection, conversation: i64, title: &MadeTitle, now: Timestamp) -> StoreResult<bool> {
    let (title, is_echo) = match title {
        MadeTitle::FirstWords(title) => (title, true),
        MadeTitle::Model(title) => (title, false),
    };
    let titled = connection
        .prepare_cached(
            "UPDATE conversations SET title = ?2, title_is_excerpt = ?3, updated_at = max(updated_at, ?4) WHERE pk = ?1 AND title IS NULL AND nameless = 0",
        )
        .and_then(|mut update| update.execute(params![conversation, title, is_echo, now.0]))
        .translated()?;
    if titled == 1 {
        let facts = snapshot::load(connection, conversation)?.facts;
        events::tell(connection, conversation, &facts, Happening::Renamed { title: Some(title) }, now)?;
    }
    Ok(titled == 1)
}

/// Takes away a title that repeats what was said, and what was told of it, for that may be what is gone now. The next answer brings another.
pub(crate) fn forget_first_words(connection: &Connection, conversation: i64, now: Timestamp) -> StoreResult<()> {
    let forgotten = connection
        .prepare_cached(
            "UPDATE conversations SET title = NULL, title_is_excerpt = 0 WHERE pk = ?1 AND title_is_excerpt = 1",
        )
        .and_then(|mut update| update.execute([conversation]))
        .translated()?;
    if forgotten == 1 {
        events::forget_titles(connection, conversation)?;
        let facts = snapshot::load(connection, conversation)?.facts;
        events::tell(connection, conversation, &facts, Happening::Renamed { title: None }, now)?;
    }
    Ok(())
}

/// Gives a conversation a title that was made for it, by its id; one that is gone has no title.
pub(crate) fn make_for(
    connection: &Connection,
    tenant: TenantId,
    conversation: ConversationId,
    title: &MadeTitle,
    now: Timestamp,
) -> StoreResult<bool> {
    let key: Option<i64> = connection
        .prepare_cached("SELECT pk FROM conversations WHERE id = ?1 AND tenant_pk = ?2 AND deleted = 0")
        .and_then(|mut select| {
            select.query_row(params![conversation.uuid().as_bytes(), tenant.0], |row| row.get(0)).optional()
        })
        .translated()?;
    key.map_or(Ok(false), |key| make(connection, key, title, now))
}

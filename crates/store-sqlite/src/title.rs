//! A conversation's title: given by a client, or made for a conversation without one. Triggers keep the search index up
//! to date.

use herma_model::{ConversationEvent, ConversationFacts, ConversationId, TenantId, Timestamp};
use herma_store::MadeTitle;
use rusqlite::{Connection, params};

use crate::failure::{StoreResult, Translate};
use crate::{events, snapshot, usage};

/// Sets the title that a client gives. `None` removes it, and no title is made for the conversation any more.
pub(crate) fn set(connection: &Connection, conversation: i64, title: Option<&str>) -> StoreResult<()> {
    connection
        .prepare_cached(
            "UPDATE conversations SET title = ?2, nameless = ?2 IS NULL, title_is_excerpt = 0 WHERE pk = ?1",
        )
        .and_then(|mut update| update.execute(params![conversation, title]))
        .map(drop)
        .translated()
}

/// Sets a made title, unless the conversation has one or a client removed it. Returns whether it was set. The caller
/// sets the time of the change, and gives the facts of the conversation if it knows them.
pub(crate) fn make(
    connection: &Connection,
    conversation: i64,
    facts: Option<&ConversationFacts>,
    title: &MadeTitle,
    now: Timestamp,
) -> StoreResult<bool> {
    let (title, is_excerpt) = match title {
        MadeTitle::FirstWords(title) => (title, true),
        MadeTitle::Model(title) => (title, false),
    };
    let titled = connection
        .prepare_cached(
            "UPDATE conversations SET title = ?2, title_is_excerpt = ?3 WHERE pk = ?1 AND title IS NULL
             AND nameless = 0",
        )
        .and_then(|mut update| update.execute(params![conversation, title, is_excerpt]))
        .translated()?;
    if titled == 1 {
        let renamed = ConversationEvent::Renamed { title: Some(title) };
        match facts {
            Some(facts) => events::record(connection, conversation, facts, renamed, now)?,
            None => {
                let facts = snapshot::load(connection, conversation)?.facts;
                events::record(connection, conversation, &facts, renamed, now)?;
            }
        }
    }
    Ok(titled == 1)
}

/// Removes a title that is an excerpt, and its events, because the deleted text may be in it. The next answer makes a
/// new title.
pub(crate) fn forget_excerpt(connection: &Connection, conversation: i64, now: Timestamp) -> StoreResult<()> {
    let forgotten = connection
        .prepare_cached(
            "UPDATE conversations SET title = NULL, title_is_excerpt = 0 WHERE pk = ?1 AND title_is_excerpt = 1",
        )
        .and_then(|mut update| update.execute([conversation]))
        .translated()?;
    if forgotten == 1 {
        events::forget_titles(connection, conversation)?;
        let facts = snapshot::load(connection, conversation)?.facts;
        events::record(connection, conversation, &facts, ConversationEvent::Renamed { title: None }, now)?;
    }
    Ok(())
}

/// Like [`make`], by the conversation's id. `false` if the conversation is deleted.
pub(crate) fn make_for(
    connection: &Connection,
    tenant: TenantId,
    conversation: ConversationId,
    title: &MadeTitle,
    now: Timestamp,
) -> StoreResult<bool> {
    let Some(key) = usage::key_of(connection, tenant, conversation)? else { return Ok(false) };
    if !make(connection, key, None, title, now)? {
        return Ok(false);
    }
    connection
        .execute("UPDATE conversations SET updated_at = max(updated_at, ?2) WHERE pk = ?1", [key, now.0])
        .translated()?;
    Ok(true)
}

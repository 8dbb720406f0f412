//! Conversations without a turn: makes one, changes its description, and ends it.

use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::{Alias, ConversationEvent, EndReason, SessionKind, Timestamp, ToolMode};
use herma_store::{Change, ConversationRow, CreateOutcome, EndOutcome, NewConversation, Scope};
use rusqlite::{Connection, params};

use crate::compact::{Idle, idle};
use crate::conversation::{self, ConversationDraft};
use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::parent::{self, Declared};
use crate::snapshot::NewName;
use crate::{branch, events, listing, queue, snapshot, title};

/// Makes a conversation. Changes nothing if its name is taken or its parent does not exist.
pub(crate) fn create(connection: &Connection, new: &NewConversation) -> StoreResult<CreateOutcome> {
    match new.alias.as_ref().map(|alias| snapshot::may_be_given(connection, &new.scope, alias)).transpose()? {
        Some(NewName::Taken) => return Ok(CreateOutcome::Exists),
        Some(NewName::Reserved) => return Ok(CreateOutcome::Reserved),
        Some(NewName::Free) | None => {}
    }
    if let (SessionKind::Branch, Some(source)) = (new.creation.kind, &new.creation.parent) {
        return create_branch(connection, new, source);
    }
    let parent = match Declared::of(connection, &new.scope, &new.creation)? {
        Declared::Parent(parent) => parent,
        Declared::NoParent => return Ok(CreateOutcome::NoParent),
        Declared::Invalid(why) => return Ok(CreateOutcome::Undeclarable(why)),
    };
    let draft = ConversationDraft {
        tenant: new.scope.tenant,
        creation: &new.creation,
        name: new.alias.as_ref().map(|alias| (alias, Namespace::Session)),
        session_key: new.session_key.as_ref().or(parent.as_ref().and_then(|parent| parent.session_key.as_ref())),
        title: new.title.as_deref(),
        metadata: new.metadata.as_deref(),
        cwd: new.cwd.as_deref(),
        parent: parent.as_ref(),
        now: new.now,
    };
    let state = conversation::make(connection, &draft)?;
    listing::by_key(connection, &new.scope.keys, state.key).map(Box::new).map(CreateOutcome::Made)
}

fn create_branch(connection: &Connection, new: &NewConversation, source: &Alias) -> StoreResult<CreateOutcome> {
    let Some((source, _)) = parent::source(connection, &new.scope, source)? else {
        return Ok(CreateOutcome::NoParent);
    };
    let stored = source.facts.session_key.as_ref();
    if stored.is_some() && new.session_key.as_ref().is_some_and(|asked| Some(asked) != stored) {
        return Ok(CreateOutcome::SessionKeyConflict);
    }
    let state = branch::declared(connection, new, &source)?;
    listing::by_key(connection, &new.scope.keys, state.key).map(Box::new).map(CreateOutcome::Made)
}

/// Changes a conversation's description. Turns do not see it, so the version stays; clients see another revision. A
/// session key is seen by turns.
pub(crate) fn update(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    change: &Change,
    now: Timestamp,
) -> StoreResult<Option<ConversationRow>> {
    let found = snapshot::visible(connection, scope, alias, Namespace::Session)?;
    let Some((mut state, _)) = found.filter(|(state, _)| !state.provisional) else { return Ok(None) };
    let before = listing::by_key(connection, &scope.keys, state.key)?;
    let brings_key = change.session_key.is_some() && state.facts.session_key.is_none();
    if brings_key {
        Arc::make_mut(&mut state.facts).session_key.clone_from(&change.session_key);
        conversation::store_session_key(connection, scope.tenant, &state)?;
    }
    connection
        .prepare_cached(
            "UPDATE conversations SET metadata = coalesce(?2, metadata), updated_at = ?3,
             archived = coalesce(?4, archived), tool_mode = coalesce(?5, tool_mode),
             chosen_model = iif(?6, ?7, chosen_model), changes = changes + 1, version = version + ?8
             WHERE pk = ?1",
        )
        .and_then(|mut update| {
            update.execute(params![
                state.key,
                change.metadata,
                now.0,
                change.archived,
                change.tool_mode.map(ToolMode::as_str),
                change.model.is_some(),
                change.model.as_ref().and_then(Option::as_deref),
                brings_key,
            ])
        })
        .translated()?;
    if let Some(title) = &change.title {
        title::set(connection, state.key, title.as_deref())?;
    }
    let after = listing::by_key(connection, &scope.keys, state.key)?;
    if after.title != before.title {
        let renamed = ConversationEvent::Renamed { title: after.title.as_deref() };
        events::record(connection, state.key, &after.facts, renamed, now)?;
    }
    if after.archived != before.archived {
        let put_away = ConversationEvent::Archived { archived: after.archived };
        events::record(connection, state.key, &after.facts, put_away, now)?;
    }
    Ok(Some(after))
}

/// Ends a conversation if there is a reason, or opens it again if there is none.
pub(crate) fn end(
    connection: &Connection,
    instance: &Instance,
    scope: &Scope,
    alias: &Alias,
    reason: Option<EndReason>,
    now: Timestamp,
) -> StoreResult<EndOutcome> {
    let state = match idle(connection, instance, scope, alias, now)? {
        Idle::Free(state) => *state,
        Idle::Busy(turn) => return Ok(EndOutcome::Busy(turn)),
        Idle::NotFound => return Ok(EndOutcome::NotFound),
    };
    if let Some(first) = queue::first(connection, instance, state.key, now)? {
        return Ok(EndOutcome::Busy(first.id));
    }
    if state.ended != reason.is_some() {
        connection
            .execute(
                "UPDATE conversations SET ended_at = iif(?2 IS NULL, NULL, ?3), end_reason = ?2, version = version + 1,
                 changes = changes + 1, updated_at = ?3 WHERE pk = ?1",
                params![state.key, reason.map(EndReason::as_str), now.0],
            )
            .translated()?;
        let what = reason.map_or(ConversationEvent::Reopened, |end_reason| ConversationEvent::Ended { end_reason });
        events::record(connection, state.key, &state.facts, what, now)?;
    }
    listing::by_key(connection, &scope.keys, state.key).map(Box::new).map(EndOutcome::Done)
}

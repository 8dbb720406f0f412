//! Imports conversations of another program: new ones completely, known ones as far as they have grown.
//!
//! - `plan`: turns a conversation into the pieces of a copy, so that restore and import share one writer.
//! - `write`: writes the pieces, and stores what was imported.
//! - `link`: connects a conversation to its parent.
//! - `known`: what was imported before, and whether the new data continues it.

mod known;
mod link;
mod plan;
mod write;

use herma_model::alias::Namespace;
use herma_model::{Alias, ConversationEvent, KeyScope, SessionId};
use herma_store::{Arrival, ConversationRow, Fate, Import, ImportOutcome, ImportedConversation, Leaving};
use rusqlite::Connection;

use self::known::KnownConversation;
use self::plan::Plan;
use self::write::ImportTarget;
use crate::failure::StoreResult;
use crate::{erase, events, listing, parent, snapshot, tables};

/// Imports all conversations.
pub(crate) fn import_all(connection: &Connection, import: &Import) -> StoreResult<ImportOutcome> {
    let arrivals = import.conversations.iter().map(|new| import_one(connection, import, new));
    arrivals.collect::<StoreResult<Vec<_>>>().map(|arrivals| ImportOutcome { arrivals })
}

fn import_one(connection: &Connection, import: &Import, new: &ImportedConversation) -> StoreResult<Arrival> {
    let (fate, conversation) = match known::find(connection, import, new)? {
        known::EarlierImport::Nothing => make(connection, import, new)?,
        known::EarlierImport::Several => (Fate::Left(Leaving::Rearranged), None),
        known::EarlierImport::One(known) => (update(connection, import, new, &known)?, Some(known.conversation)),
    };
    let names_taken = match conversation {
        Some(conversation) => {
            link::link(connection, import, new, conversation)?;
            add_names(connection, import, new, conversation)?
        }
        None => Vec::new(),
    };
    Ok(Arrival { fate, names_taken })
}

fn make(connection: &Connection, import: &Import, new: &ImportedConversation) -> StoreResult<(Fate, Option<i64>)> {
    if let Some(taken) = taken(connection, import, new, 0)? {
        return Ok((Fate::Left(Leaving::Taken(taken)), None));
    }
    let plan = Plan::of(new.id, new, &[]);
    let conversation = write::conversation(connection, import, new)?;
    ImportTarget { import, new, plan: &plan, conversation, id: new.id }.all(connection)?;
    events::record_arrival(connection, conversation, import.now)?;
    Ok((Fate::Made, Some(conversation)))
}

/// The first session, from index `from` on, whose id is already a name here.
fn taken(
    connection: &Connection,
    import: &Import,
    new: &ImportedConversation,
    from: usize,
) -> StoreResult<Option<SessionId>> {
    for session in &new.sessions[from..] {
        if find_name(connection, import, session.id.as_str())?.is_some() {
            return Ok(Some(session.id.clone()));
        }
    }
    Ok(None)
}

fn find_name(connection: &Connection, import: &Import, name: &str) -> StoreResult<Option<i64>> {
    let Ok(alias) = Alias::parse(name) else { return Ok(None) };
    let found = snapshot::find(connection, import.tenant, &alias, Namespace::Session)?;
    Ok(found.map(|(state, _)| state.key))
}

/// Updates a conversation that was imported before, unless it was changed here.
fn update(
    connection: &Connection,
    import: &Import,
    new: &ImportedConversation,
    known: &KnownConversation,
) -> StoreResult<Fate> {
    let state = snapshot::load(connection, known.conversation)?;
    let id = state.facts.id;
    let plan = Plan::of(id, new, &known.sessions);
    if plan.content == known.content {
        return Ok(Fate::Unchanged);
    }
    if !known.began_as(new) {
        return Ok(Fate::Left(Leaving::Rearranged));
    }
    if state.version != known.version || state.waiting > 0 || known::is_pinned(connection, known.conversation)? {
        return Ok(Fate::Left(Leaving::Touched));
    }
    if let Some(taken) = taken(connection, import, new, known.sessions.len())? {
        return Ok(Fate::Left(Leaving::Taken(taken)));
    }
    let target = ImportTarget { import, new, plan: &plan, conversation: known.conversation, id };
    let before = listing::by_key(connection, &KeyScope::All, known.conversation)?;
    let fate = match known::stored(connection, known)? {
        stored if plan.continues(&stored, known) => Fate::Extended(target.rest(connection, &stored, known)?),
        _ => replace_all(connection, &target)?,
    };
    record_changes(connection, &target, &before)?;
    Ok(fate)
}

/// Writes events for what changed in an updated conversation.
fn record_changes(connection: &Connection, target: &ImportTarget<'_>, before: &ConversationRow) -> StoreResult<()> {
    let after = listing::by_key(connection, &KeyScope::All, target.conversation)?;
    if after.facts.head.id != before.facts.head.id {
        events::record(connection, target.conversation, &after.facts, ConversationEvent::HeadMoved, target.import.now)?;
    }
    if after.title != before.title {
        let renamed = ConversationEvent::Renamed { title: after.title.as_deref() };
        events::record(connection, target.conversation, &after.facts, renamed, target.import.now)?;
    }
    Ok(())
}

fn replace_all(connection: &Connection, target: &ImportTarget<'_>) -> StoreResult<Fate> {
    if !erase::empty(connection, target.conversation)? {
        return Ok(Fate::Left(Leaving::Inherited));
    }
    target.all(connection)?;
    parent::reconnect_children(connection, target.conversation)?;
    Ok(Fate::Replaced)
}

/// Gives a conversation further names. Returns the names that lead elsewhere.
fn add_names(
    connection: &Connection,
    import: &Import,
    new: &ImportedConversation,
    conversation: i64,
) -> StoreResult<Vec<Alias>> {
    let mut taken = Vec::new();
    for alias in &new.names {
        match find_name(connection, import, alias.as_str())? {
            Some(other) if other != conversation => taken.push(alias.clone()),
            Some(_) => {}
            None => tables::alias(connection, import.tenant, Namespace::Session, alias.as_str(), conversation, None)?,
        }
    }
    Ok(taken)
}

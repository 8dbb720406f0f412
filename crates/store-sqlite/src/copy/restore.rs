//! Restores a conversation, if nothing stored here conflicts with it.

use std::collections::HashSet;

use herma_model::alias::Namespace;
use herma_model::copy::{Copied, CopiedConversation, CopiedName, CopiedSource, CopyBuilder};
use herma_model::{ConversationId, Seq, SessionKey, TenantId, Usage};
use herma_store::{Restoration, RestoreOutcome, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use super::row::{inherited_row, whole_row};
use super::write::PieceWriter;
use super::{measure, read};
use crate::failure::{StoreResult, Translate};
use crate::lineage::Segment;
use crate::tables::{alias, insert, replace};
use crate::{events, parent};

/// Why a restoration stops. Everything it wrote is rolled back.
pub(crate) enum Halt {
    /// The store failed.
    Failed(StoreError),
    /// The restoration is not possible.
    Left(RestoreOutcome),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// The result of a step of a restoration.
pub(crate) type RestoreResult<T> = Result<T, Halt>;

/// The outcome for pieces that contradict each other.
pub(super) fn broken<T>(what: String) -> RestoreResult<T> {
    Err(Halt::Left(RestoreOutcome::Broken(what)))
}

/// Restores. The caller rolls back what was written unless the outcome is `Made`.
pub(crate) fn restore(connection: &Connection, restoration: &Restoration) -> StoreResult<RestoreOutcome> {
    match attempt(connection, restoration) {
        Ok(()) => Ok(RestoreOutcome::Made),
        Err(Halt::Left(outcome)) => Ok(outcome),
        // A store never writes rows that the schema refuses, so the copy is broken.
        Err(Halt::Failed(StoreError::Failed(why))) if why.contains(CONTRADICTS) => Ok(RestoreOutcome::Broken(why)),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// How SQLite reports that a row violates the schema.
const CONTRADICTS: &str = "constraint failed";

/// A stored conversation with this id.
struct StoredConversation {
    key: i64,
    tenant: TenantId,
    /// Whether it exists only for the branches that inherit from it.
    is_deleted: bool,
}

fn stored(connection: &Connection, id: ConversationId) -> StoreResult<Option<StoredConversation>> {
    connection
        .prepare_cached("SELECT pk, tenant_pk, deleted FROM conversations WHERE id = ?1")
        .and_then(|mut select| {
            select
                .query_row([id.uuid().as_bytes()], |row| {
                    Ok(StoredConversation { key: row.get(0)?, tenant: TenantId(row.get(1)?), is_deleted: row.get(2)? })
                })
                .optional()
        })
        .translated()
}

fn attempt(connection: &Connection, restoration: &Restoration) -> RestoreResult<()> {
    let Restoration { tenant, conversation, inherited, .. } = restoration;
    let id = conversation.what.id;
    measure::conversation(conversation)?;
    for source in inherited {
        measure::source(source)?;
    }
    let kept = match stored(connection, id)? {
        Some(stored) if stored.tenant != *tenant => return Err(Halt::Left(RestoreOutcome::Taken(id.to_string()))),
        Some(StoredConversation { key, is_deleted: false, .. }) => {
            return Err(Halt::Left(compare(connection, key, conversation)?));
        }
        Some(StoredConversation { key, .. }) => Some(key),
        None => None,
    };
    check_names_free(connection, *tenant, conversation)?;
    for source in inherited {
        inherit(connection, *tenant, source)?;
    }
    check_session_key(connection, conversation)?;
    let reach = kept.map_or(Ok(0), |kept| last_place(connection, kept))?;
    if reach >= conversation.what.next_place.0 {
        return Err(Halt::Left(RestoreOutcome::Differs));
    }
    if conversation.sessions.is_empty() {
        return broken("it has no session".to_owned());
    }
    let columns = whole_row(*tenant, &conversation.what, restoration.now);
    let key = match kept {
        Some(kept) => replace(connection, kept, &columns).map(|()| kept)?,
        None => insert(connection, &columns)?,
    };
    let mut writer = PieceWriter::new(connection, *tenant, key, id, reach);
    let lineage = writer.write(conversation)?;
    writer.pin(&conversation.what.pinned, &lineage)?;
    name(&writer, &conversation.what.names)?;
    parent::reconnect_children(connection, key)?;
    if comes_from_itself(connection, key)? {
        return broken("it comes from itself".to_owned());
    }
    Ok(events::record_arrival(connection, key, restoration.now)?)
}

/// Whether the stored conversation with this id is the same as the restored one.
fn compare(connection: &Connection, key: i64, copied: &Copied<CopiedConversation>) -> StoreResult<RestoreOutcome> {
    let mut builder = CopyBuilder::default();
    read::conversation(connection, Segment::whole(key), &mut |piece| {
        builder.add(piece).map_err(|misplaced| StoreError::Unavailable(misplaced.to_string()))
    })?;
    let here = builder.finish().map(|(_, conversation)| comparable(conversation));
    let is_same = here.is_some_and(|here| here == comparable(copied.clone()));
    Ok(if is_same { RestoreOutcome::AlreadyHere } else { RestoreOutcome::Differs })
}

/// Removes what may differ. The ids of the parents' conversations: a parent may be in another store. What Herma itself
/// has used, and what all of it cost: that grows without a change of the conversation.
fn comparable(mut conversation: Copied<CopiedConversation>) -> Copied<CopiedConversation> {
    (conversation.what.side_usage, conversation.what.cost) = (Usage::default(), None);
    let parents = conversation.sessions.iter_mut().filter_map(|session| session.parent.as_mut());
    parents.for_each(|parent| parent.conversation_id = None);
    conversation
}

/// Checks that none of its names is taken.
fn check_names_free(
    connection: &Connection,
    tenant: TenantId,
    copied: &Copied<CopiedConversation>,
) -> RestoreResult<()> {
    let mut select = connection
        .prepare_cached("SELECT 1 FROM aliases WHERE tenant_pk = ?1 AND namespace = ?2 AND alias = ?3")
        .translated()?;
    let own = [(Namespace::Session, copied.what.id.to_string())].into_iter();
    let sessions = copied.sessions.iter().map(|session| (Namespace::Session, session.id.to_string()));
    let further = copied.what.names.iter().map(|name| (name.namespace, name.name.to_string()));
    let mut seen = HashSet::new();
    for (namespace, name) in own.chain(sessions).chain(further) {
        if select.exists(params![tenant.0, namespace.as_str(), name]).translated()? {
            return Err(Halt::Left(RestoreOutcome::Taken(name)));
        }
        if !seen.insert((namespace, name.clone())) {
            return broken(format!("the name {name} comes twice"));
        }
    }
    Ok(())
}

/// A branch of a conversation with a session key must have the same key, so that others do not see what it inherits.
fn check_session_key(connection: &Connection, copied: &Copied<CopiedConversation>) -> RestoreResult<()> {
    let mut select = connection
        .prepare_cached(
            "SELECT 1 FROM conversations WHERE id = ?1 AND deleted = 0 AND session_key IS NOT NULL
             AND session_key IS NOT ?2",
        )
        .translated()?;
    let own = copied.what.session_key.as_ref().map(SessionKey::as_str);
    for source in copied.sessions.iter().filter_map(|session| session.base.as_ref()?.conversation_id) {
        if select.exists(params![source.uuid().as_bytes(), own]).translated()? {
            return broken(format!("it is a branch of {source}, which has another session key here"));
        }
    }
    Ok(())
}

/// Stores a conversation's names.
fn name(writer: &PieceWriter<'_>, further: &[CopiedName]) -> StoreResult<()> {
    let names = writer.names();
    names.of_conversation(writer.id)?;
    for (id, key) in &writer.sessions {
        names.of_session(id, *key)?;
    }
    for CopiedName { namespace, name } in further {
        alias(writer.connection, writer.tenant, *namespace, name.as_str(), writer.conversation, None)?;
    }
    Ok(())
}

/// Whether a conversation is its own ancestor.
fn comes_from_itself(connection: &Connection, key: i64) -> StoreResult<bool> {
    let above: Option<i64> = connection
        .query_row("SELECT parent_pk FROM conversations WHERE pk = ?1", [key], |row| row.get(0))
        .translated()?;
    above.map_or(Ok(false), |above| parent::comes_from(connection, above, key))
}

/// Restores what a branch inherits of a conversation, or checks that it is there.
fn inherit(connection: &Connection, tenant: TenantId, source: &Copied<CopiedSource>) -> RestoreResult<()> {
    let id = source.what.id;
    let key = match stored(connection, id)? {
        Some(stored) if stored.tenant != tenant => return Err(Halt::Left(RestoreOutcome::Taken(id.to_string()))),
        Some(stored) if stored.is_deleted => stored.key,
        Some(stored) => return check_messages(connection, stored.key, source),
        None => insert(connection, &inherited_row(tenant, &source.what))?,
    };
    if source.sessions.is_empty() {
        return broken("what it inherits has no session".to_owned());
    }
    let reach = last_place(connection, key)?;
    PieceWriter::new(connection, tenant, key, id, reach).write(source)?;
    Ok(clear_description(connection, key, source.what.through)?)
}

/// Clears everything of a conversation that is only inherited, except its messages.
fn clear_description(connection: &Connection, key: i64, through: Seq) -> StoreResult<()> {
    connection
        .execute("UPDATE sessions SET parent_pk = NULL, missing_parent = NULL WHERE conversation_pk = ?1", [key])
        .translated()?;
    connection
        .execute(
            "UPDATE conversations SET previous_pk = NULL, parent_pk = NULL, next_seq = max(next_seq, ?2 + 1)
             WHERE pk = ?1",
            [key, through.0],
        )
        .map(drop)
        .translated()
}

/// Checks that a conversation that is not deleted here has the messages that are inherited of it.
fn check_messages(connection: &Connection, key: i64, source: &Copied<CopiedSource>) -> RestoreResult<()> {
    let mut select = connection
        .prepare_cached(
            "SELECT 1 FROM sessions s JOIN messages m ON m.session_pk = s.pk WHERE s.conversation_pk = ?1 AND s.id = ?2
             AND m.seq = ?3 AND m.id = ?4
             AND m.digest = ?5",
        )
        .translated()?;
    for message in &source.messages {
        let (session, id) = (message.session_id.as_str(), message.id.uuid());
        let place = params![key, session, message.place.0, id.as_bytes(), &message.said.digest.0];
        if !select.exists(place).translated()? {
            return Err(Halt::Left(RestoreOutcome::OtherSource(source.what.id)));
        }
    }
    Ok(())
}

fn last_place(connection: &Connection, conversation: i64) -> StoreResult<i64> {
    connection
        .prepare_cached(
            "SELECT coalesce(max(m.seq), 0) FROM sessions s JOIN messages m ON m.session_pk = s.pk
             WHERE s.conversation_pk = ?1",
        )
        .and_then(|mut select| select.query_row([conversation], |row| row.get(0)))
        .translated()
}

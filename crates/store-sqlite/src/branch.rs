//! Beginning a conversation where a turn of another one ended. Nothing is copied, and that other one never notices.

use herma_model::{CreatorKind, ParentRelation, SessionKind, TurnId};
use herma_store::{Admission, Refusal, Seen, Version};
use rusqlite::{Connection, params};

use crate::base::Ground;
use crate::conversation;
use crate::failure::{Outcome, Translate};
use crate::lineage::{Lineage, Segment};
use crate::rows::ConversationState;
use crate::snapshot;

/// What came of asking for a branch.
pub(crate) enum Branching {
    /// It is there, without a turn.
    Made(ConversationState),
    /// The source is not as it was seen.
    Stale,
    /// It cannot be made.
    Refused(Refusal),
}

/// Makes a branch, its first session and their names.
pub(crate) fn create(connection: &Connection, admission: &Admission, source: TurnId) -> Outcome<Branching> {
    let Some(point) = Segment::up_to(connection, admission.scope.tenant, source)? else {
        return Ok(Branching::Refused(Refusal::NotFound));
    };
    let source = snapshot::load(connection, point.conversation)?;
    let stored = source.facts.session_key.as_ref();
    if !admission.scope.keys.sees(stored) {
        return Ok(Branching::Refused(Refusal::NotFound));
    }
    if stored.is_some() && admission.session_key.as_ref().is_some_and(|asked| Some(asked) != stored) {
        return Ok(Branching::Refused(Refusal::SessionKeyConflict));
    }
    // What is inherited cannot change any more, but what it is seen through can: by an undo.
    let now = Seen::At(source.facts.id, Version(source.version));
    if admission.seen != Seen::Nothing && admission.seen != now {
        return Ok(Branching::Stale);
    }
    make(connection, admission, &source, point).map(Branching::Made)
}

fn make(
    connection: &Connection,
    admission: &Admission,
    source: &ConversationState,
    point: Segment,
) -> Outcome<ConversationState> {
    let creation = &admission.creation;
    let inherited = Lineage::of(connection, source, point.session, point.through, 0)?.count(connection)?;
    connection
        .prepare_cached(
            "INSERT INTO conversations (tenant_pk, id, head_pk, root_pk, origin_kind, session_key, owner_key, source, system, version, fence, next_seq,
             message_count, created_at, updated_at)
             SELECT tenant_pk, ?2, 0, 0, ?3, session_key, ?4, ?5, system, 0, 0, ?6, ?7, ?8, ?8 FROM conversations WHERE pk = ?1",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                source.key,
                creation.conversation.uuid().as_bytes(),
                SessionKind::Branch.as_str(),
                creation.owner.map(|owner| owner.uuid().into_bytes()),
                creation.source,
                point.through + 1,
                inherited,
                admission.now.0
            ])
        })
        .translated()?;
    let key = connection.last_insert_rowid();
    let head = first_session(connection, admission, key, point)?;
    conversation::begin(connection, admission.scope.tenant, creation.conversation, key, head, &creation.session)?;
    connection
        .execute(
            "INSERT INTO pins (conversation_pk, seq, message_pk) SELECT ?2, seq, message_pk FROM pins WHERE conversation_pk = ?1 AND seq <= ?3",
            [source.key, key, point.through],
        )
        .translated()?;
    snapshot::load(connection, key)
}

/// The session that stands where the turn ended, on the compaction that stood there.
fn first_session(connection: &Connection, admission: &Admission, conversation: i64, point: Segment) -> Outcome<i64> {
    let ground = Ground::at(connection, point.session, point.through)?;
    connection
        .prepare_cached(
            "INSERT INTO sessions (tenant_pk, conversation_pk, id, kind, depth, parent_id, parent_relation, creator_kind, reason, base_session_pk,
             base_seq, base_compaction_pk, created_at)
             SELECT tenant_pk, ?2, ?3, ?4, 0, id, ?5, ?6, ?7, pk, ?8, ?9, ?10 FROM sessions WHERE pk = ?1",
        )
        .and_then(|mut insert| {
            insert.execute(params![
                point.session,
                conversation,
                admission.creation.session.as_str(),
                SessionKind::Branch.as_str(),
                ParentRelation::Branch.as_str(),
                CreatorKind::Branch.as_str(),
                admission.creation.reason,
                point.through,
                ground.map(|ground| ground.key),
                admission.now.0
            ])
        })
        .translated()?;
    Ok(connection.last_insert_rowid())
}

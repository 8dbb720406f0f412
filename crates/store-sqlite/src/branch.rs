//! Beginning a conversation where an answer of another one ended. Nothing is copied, and that other one never notices.

use herma_model::alias::Namespace;
use herma_model::{
    Alias, CreatorKind, Happening, ParentRelation, SessionId, SessionKey, SessionKind, TenantId, Timestamp, TurnId,
};
use herma_store::{
    Admission, BranchOutcome, BranchPoint, Creation, NewBranch, NewConversation, Refusal, Seen, Version,
};
use rusqlite::Connection;

use crate::base::Ground;
use crate::failure::{Outcome, Translate};
use crate::lineage::{Lineage, Segment};
use crate::parent::{self, Parent};
use crate::point::{Found, Point};
use crate::rows::ConversationState;
use crate::tables::{ConversationColumns, SessionColumns, insert};
use crate::{conversation, events, listing, snapshot};

/// What came of a turn that asks for a branch.
pub(crate) enum Branching {
    /// It is there, without a turn.
    Made(ConversationState),
    /// The source is not as it was seen.
    Stale,
    /// It cannot be made.
    Refused(Refusal),
}

/// Makes the branch of a turn, where an earlier turn ended.
pub(crate) fn create(connection: &Connection, admission: &Admission, source: TurnId) -> Outcome<Branching> {
    let Some(inherited) = Segment::up_to(connection, admission.scope.tenant, source)? else {
        return Ok(Branching::Refused(Refusal::NotFound));
    };
    let source = snapshot::load(connection, inherited.conversation)?;
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
    let point = Point { inherited, parent: inherited.session };
    make(connection, &Making::of(admission), &source, point).map(Branching::Made)
}

/// Makes the branch of a turn that does not want to wait in a conversation it may use.
pub(crate) fn leave(
    connection: &Connection,
    admission: &Admission,
    source: &ConversationState,
) -> Outcome<ConversationState> {
    make(connection, &Making::of(admission), source, Point::end(connection, source)?)
}

/// Makes a branch without a turn.
pub(crate) fn branch(connection: &Connection, new: &NewBranch) -> Outcome<BranchOutcome> {
    let Some((source, _)) = parent::source(connection, &new.scope, &new.source)? else {
        return Ok(BranchOutcome::NotFound);
    };
    if let Some(alias) = &new.alias {
        if snapshot::find(connection, new.scope.tenant, alias, Namespace::Session)?.is_some() {
            return Ok(BranchOutcome::Exists);
        }
        if !alias.may_be_created() {
            return Ok(BranchOutcome::Reserved);
        }
    }
    let point = match new.at {
        BranchPoint::End => Point::end(connection, &source)?,
        BranchPoint::Message(message) => match Point::at(connection, new.scope.tenant, &source, message)? {
            Found::Point(point) => point,
            Found::NoSuchMessage => return Ok(BranchOutcome::NoSuchMessage),
            Found::Unanswered => return Ok(BranchOutcome::Unanswered),
        },
    };
    let making = Making {
        tenant: new.scope.tenant,
        creation: &new.creation,
        name: new.alias.as_ref(),
        session_key: None,
        title: new.title.as_deref(),
        metadata: new.metadata.as_deref(),
        now: new.now,
    };
    let made = make(connection, &making, &source, point)?;
    listing::by_key(connection, made.key).map(Box::new).map(BranchOutcome::Made)
}

/// Makes what was declared as a branch, at the end of its source.
pub(crate) fn declared(
    connection: &Connection,
    new: &NewConversation,
    source: &ConversationState,
) -> Outcome<ConversationState> {
    let making = Making {
        tenant: new.scope.tenant,
        creation: &new.creation,
        name: new.alias.as_ref(),
        session_key: new.session_key.as_ref(),
        title: new.title.as_deref(),
        metadata: new.metadata.as_deref(),
        now: new.now,
    };
    make(connection, &making, source, Point::end(connection, source)?)
}

/// What a branch is made of, but for its source.
struct Making<'a> {
    tenant: TenantId,
    creation: &'a Creation,
    name: Option<&'a Alias>,
    /// If the source has none; a turn brings its own when it starts.
    session_key: Option<&'a SessionKey>,
    title: Option<&'a str>,
    metadata: Option<&'a str>,
    now: Timestamp,
}

impl<'a> Making<'a> {
    fn of(admission: &'a Admission) -> Self {
        Self {
            tenant: admission.scope.tenant,
            creation: &admission.creation,
            name: None,
            session_key: None,
            title: None,
            metadata: None,
            now: admission.now,
        }
    }
}

fn make(
    connection: &Connection,
    making: &Making<'_>,
    source: &ConversationState,
    point: Point,
) -> Outcome<ConversationState> {
    let creation = making.creation;
    let Segment { session, through, .. } = point.inherited;
    let inherited = if point.inherited.conversation == source.key {
        Lineage::of(connection, source, session, through, 0)?
    } else {
        Lineage::after(connection, source, 0)?.up_to(point.inherited)
    };
    let system = connection
        .prepare_cached("SELECT system FROM conversations WHERE pk = ?1")
        .and_then(|mut select| select.query_row([source.key], |row| row.get(0)))
        .translated()?;
    let conversation = ConversationColumns {
        tenant_pk: making.tenant.0,
        id: creation.conversation.uuid().into_bytes(),
        origin_kind: SessionKind::Branch.as_str(),
        session_key: source.facts.session_key.as_ref().or(making.session_key).map(SessionKey::as_str),
        owner_key: creation.owner.map(|owner| owner.uuid().into_bytes()),
        source: &creation.source,
        title: making.title,
        metadata: making.metadata,
        system,
        next_seq: through + 1,
        message_count: inherited.count(connection)?,
        created_at: making.now.0,
        updated_at: making.now.0,
        parent_pk: Some(source.key),
        answered: inherited.has_answer(connection)?,
        ..ConversationColumns::default()
    };
    let key = insert(connection, &conversation)?;
    let id = making.name.map_or_else(|| creation.session.clone(), |alias| SessionId::from_name(alias.as_str()));
    let parent = Parent::session(connection, point.parent, source, ParentRelation::Branch)?;
    let head = first_session(connection, making, key, &id, &parent, point.inherited)?;
    conversation::begin(connection, making.tenant, creation.conversation, key, head, &id)?;
    connection
        .execute(
            "INSERT INTO pins (conversation_pk, seq, message_pk) SELECT ?2, seq, message_pk FROM pins WHERE conversation_pk = ?1 AND seq <= ?3",
            [source.key, key, through],
        )
        .translated()?;
    let made = snapshot::load(connection, key)?;
    for what in [Happening::Created { title: making.title }, Happening::Branched] {
        events::tell(connection, key, &made.facts, what, making.now)?;
    }
    Ok(made)
}

/// The session that stands where its source was left, on the compaction that stood there.
fn first_session(
    connection: &Connection,
    making: &Making<'_>,
    conversation: i64,
    id: &SessionId,
    parent: &Parent,
    inherited: Segment,
) -> Outcome<i64> {
    // What the source inherited itself may be deleted: what it stands on there, the source knows.
    let ground = Ground::at(connection, parent.session, inherited.through)?;
    let session = SessionColumns {
        tenant_pk: making.tenant.0,
        conversation_pk: conversation,
        id: id.as_str(),
        kind: SessionKind::Branch.as_str(),
        parent_pk: Some(parent.session),
        parent_id: Some(parent.id.as_str()),
        parent_relation: Some(parent.relation.as_str()),
        creator_kind: CreatorKind::Branch.as_str(),
        reason: making.creation.reason.as_deref(),
        base_session_pk: Some(inherited.session),
        base_seq: Some(inherited.through),
        base_compaction_pk: ground.map(|ground| ground.key),
        created_at: making.now.0,
        ..SessionColumns::default()
    };
    insert(connection, &session)
}

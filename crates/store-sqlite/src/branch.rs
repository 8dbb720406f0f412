//! Makes a conversation that begins where an answer of another one ended. Nothing is copied, and the other one does not
//! change.

use herma_model::alias::Namespace;
use herma_model::{Alias, ConversationEvent, ConversationId, CreatorKind, ParentRelation, Seq, SessionKind, TurnId};
use herma_store::{
    Admission, BranchOutcome, BranchPoint, NewBranch, NewConversation, Refusal, Seen, StoreError, Version,
};
use rusqlite::Connection;

use crate::base::CompactionBase;
use crate::conversation::ConversationDraft;
use crate::failure::{StoreResult, Translate};
use crate::lineage::{Lineage, Segment};
use crate::parent::{self, Parent};
use crate::point::{Point, PointOutcome};
use crate::rows::ConversationState;
use crate::snapshot::NewName;
use crate::tables::{ConversationColumns, SessionColumns, insert, next_session};
use crate::{conversation, events, histories, listing, rewinds, snapshot};

/// The outcome for a turn that asks for a branch.
pub(crate) enum TurnBranch {
    /// The branch exists. Its turn has not started yet.
    Made(Box<ConversationState>),
    /// The source has changed since the caller read it.
    Stale,
    /// It cannot be made.
    Refused(Refusal),
}

/// Makes the branch of a turn, at the end of turn `source`.
pub(crate) fn create(connection: &Connection, admission: &Admission, source: TurnId) -> StoreResult<TurnBranch> {
    let Some(inherited) = Segment::up_to(connection, admission.scope.tenant, source)? else {
        return Ok(TurnBranch::Refused(Refusal::NotFound));
    };
    let source = snapshot::load(connection, inherited.conversation)?;
    let stored = source.facts.session_key.as_ref();
    if !admission.scope.keys.sees(stored) {
        return Ok(TurnBranch::Refused(Refusal::NotFound));
    }
    if stored.is_some() && admission.session_key.as_ref().is_some_and(|asked| Some(asked) != stored) {
        return Ok(TurnBranch::Refused(Refusal::SessionKeyConflict));
    }
    admission.scope.check(source.facts.id, source.revision())?;
    // Inherited messages cannot change any more, but an undo can change the base through which they are seen.
    let now = Seen::At(source.facts.id, Version(source.version));
    if admission.seen != Seen::Nothing && admission.seen != now {
        return Ok(TurnBranch::Stale);
    }
    let point = Point { inherited, parent: inherited.session };
    make(connection, &of_turn(admission), &source, point).map(Box::new).map(TurnBranch::Made)
}

/// Makes the branch of a turn that inherits no message of a conversation. `None` if the caller cannot reach that.
pub(crate) fn anew(
    connection: &Connection,
    admission: &Admission,
    source: ConversationId,
) -> StoreResult<Option<ConversationState>> {
    let name = Alias::parse(&source.to_string()).map_err(|why| StoreError::Failed(why.to_string()))?;
    let found = snapshot::visible(connection, &admission.scope, &name, Namespace::Session)?;
    let Some((source, _)) = found else { return Ok(None) };
    let session = connection
        .query_row("SELECT root_pk FROM conversations WHERE pk = ?1", [source.key], |row| row.get(0))
        .translated()?;
    let point = Point { inherited: Segment { conversation: source.key, session, through: 0 }, parent: session };
    make(connection, &of_turn(admission), &source, point).map(Some)
}

/// Makes the branch of a turn that does not want to wait for the running turn.
pub(crate) fn leave(
    connection: &Connection,
    admission: &Admission,
    source: &ConversationState,
) -> StoreResult<ConversationState> {
    make(connection, &of_turn(admission), source, Point::end(connection, source)?)
}

/// Makes a branch without a turn.
pub(crate) fn branch(connection: &Connection, new: &NewBranch) -> StoreResult<BranchOutcome> {
    let Some((source, _)) = parent::source(connection, &new.scope, &new.source)? else {
        return Ok(BranchOutcome::NotFound);
    };
    match new.alias.as_ref().map(|alias| snapshot::may_be_given(connection, &new.scope, alias)).transpose()? {
        Some(NewName::Taken) => return Ok(BranchOutcome::Exists),
        Some(NewName::Reserved) => return Ok(BranchOutcome::Reserved),
        Some(NewName::Free) | None => {}
    }
    let point = match new.at {
        BranchPoint::End => Point::end(connection, &source)?,
        BranchPoint::Message(message) => match Point::at(connection, new.scope.tenant, &source, message)? {
            PointOutcome::Point(point) => point,
            PointOutcome::NoSuchMessage => return Ok(BranchOutcome::NoSuchMessage),
            PointOutcome::Unanswered => return Ok(BranchOutcome::Unanswered),
        },
    };
    let draft = ConversationDraft {
        tenant: new.scope.tenant,
        creation: &new.creation,
        name: new.alias.as_ref().map(|alias| (alias, Namespace::Session)),
        session_key: None,
        title: new.title.as_deref(),
        metadata: new.metadata.as_deref(),
        cwd: new.cwd.as_deref(),
        parent: None,
        now: new.now,
    };
    let made = make(connection, &draft, &source, point)?;
    listing::by_key(connection, &new.scope.keys, made.key).map(Box::new).map(BranchOutcome::Made)
}

/// Makes a conversation that was declared as a branch, at the end of its source.
pub(crate) fn declared(
    connection: &Connection,
    new: &NewConversation,
    source: &ConversationState,
) -> StoreResult<ConversationState> {
    let draft = ConversationDraft {
        tenant: new.scope.tenant,
        creation: &new.creation,
        name: new.alias.as_ref().map(|alias| (alias, Namespace::Session)),
        session_key: new.session_key.as_ref(),
        title: new.title.as_deref(),
        metadata: new.metadata.as_deref(),
        cwd: new.cwd.as_deref(),
        parent: None,
        now: new.now,
    };
    make(connection, &draft, source, Point::end(connection, source)?)
}

/// The branch that a turn makes.
const fn of_turn(admission: &Admission) -> ConversationDraft<'_> {
    ConversationDraft {
        tenant: admission.scope.tenant,
        creation: &admission.creation,
        name: None,
        session_key: None,
        title: None,
        metadata: None,
        cwd: None,
        parent: None,
        now: admission.now,
    }
}

/// Makes a branch. Its own session key counts only if the source has none.
fn make(
    connection: &Connection,
    draft: &ConversationDraft<'_>,
    source: &ConversationState,
    point: Point,
) -> StoreResult<ConversationState> {
    let Segment { session, through, .. } = point.inherited;
    let inherited = Lineage::to(connection, source, point.inherited, 0)?;
    let rewinds = rewinds::of(connection, source.key)?.before(Seq(through));
    let system = connection
        .prepare_cached("SELECT system FROM conversations WHERE pk = ?1")
        .and_then(|mut select| select.query_row([source.key], |row| row.get(0)))
        .translated()?;
    let parent = Parent::session(connection, point.parent, source, ParentRelation::Branch)?;
    let draft = &ConversationDraft {
        session_key: source.facts.session_key.as_ref().or(draft.session_key),
        parent: Some(&parent),
        ..*draft
    };
    let head = next_session(connection)?;
    let conversation = ConversationColumns {
        head_pk: head,
        root_pk: head,
        origin_kind: SessionKind::Branch.as_str(),
        system,
        next_seq: through + 1,
        message_count: inherited.count(connection)?,
        answered: inherited.has_answer(connection)?,
        rewinds: rewinds::to(&rewinds),
        history: histories::at(connection, session, through)?,
        ..draft.columns()
    };
    let key = insert(connection, &conversation)?;
    let id = draft.session_id();
    // Read the base from the source: the conversation that the source inherits from may be deleted.
    let compaction_base = CompactionBase::at(connection, parent.session, through, &rewinds)?;
    let first = SessionColumns {
        pk: Some(head),
        kind: SessionKind::Branch.as_str(),
        creator_kind: CreatorKind::Branch.as_str(),
        base_session_pk: Some(session),
        base_seq: Some(through),
        base_compaction_pk: compaction_base.map(|compaction_base| compaction_base.key),
        ..draft.session_columns(key, &id)
    };
    insert(connection, &first)?;
    conversation::name(connection, draft.tenant, draft.creation.conversation, key, head, &id)?;
    connection
        .execute(
            "INSERT INTO pins (conversation_pk, seq, message_pk) SELECT ?2, seq, message_pk FROM pins
             WHERE conversation_pk = ?1 AND seq <= ?3",
            [source.key, key, through],
        )
        .translated()?;
    let made = snapshot::load(connection, key)?;
    for what in [ConversationEvent::Created { title: draft.title }, ConversationEvent::Branched] {
        events::record(connection, key, &made.facts, what, draft.now)?;
    }
    Ok(made)
}

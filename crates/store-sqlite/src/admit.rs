//! Gives a conversation's lease to a turn.
//!
//! Everything here happens inside one transaction that holds the write lock, so no other process can change the data in
//! between.

use std::sync::Arc;

use herma_model::{
    Fence, InvalidDeclaration, Message, MessageId, NewMessage, Resolution, Seq, SessionKind, StopKind, Timestamp,
    TurnId, TurnName,
};
use herma_store::{
    Admission, AdmitOutcome, Creation, ExpectedRevision, FoundHistory, HistoryScope, Intent, Lease, Receipt, Refusal,
    Revision, Running, Seen, StoreError, Target, Ticket, TurnPolicy, Version,
};
use rusqlite::{Connection, params};

use crate::attempt::{NewLease, TurnRow, WaitsAs, attempt_at_the_end, first_attempt, next_attempt, waits_as};
use crate::branch::{self, TurnBranch};
use crate::conversation;
use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::parent::Declared;
use crate::park::end_parked;
use crate::queue::{self, NewWaiter};
use crate::rows::ConversationState;
use crate::tables::insert_message;
use crate::takeover::{self, TakeoverReason, take_over};
use crate::{admissions, histories, memories, retry, snapshot, waiting};

/// Decides an admission. What is written is kept unless the outcome is `Refused`.
pub(crate) fn admit(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
) -> StoreResult<AdmitOutcome> {
    if !is_for_its_conversation_alone(admission) {
        admissions::write_out_all(connection)?;
        instance.lookups.forget();
    }
    if admission.ticket.is_none()
        && let Some(outcome) = retry::recognise(connection, instance, admission)?
    {
        return Ok(outcome);
    }
    if admission.takes_over && admission.ticket.is_none() && !queue::may_enter_again(connection, instance, admission)? {
        return Ok(AdmitOutcome::Joined(admission.turn));
    }
    if admission.intent == Intent::Repeat {
        return not_repeated(connection, instance, admission);
    }
    if let Some(ticket) = admission.ticket
        && !queue::waits(connection, instance, ticket)?
    {
        return Ok(AdmitOutcome::Refused(Refusal::Withdrawn));
    }
    let Some((mut state, resolution)) = find(connection, instance, admission)? else {
        return match &admission.target {
            Target::Branch { source } => match branch::create(connection, admission, *source)? {
                TurnBranch::Made(state) => start(connection, instance, admission, *state, Resolution::Branched),
                TurnBranch::Stale => Ok(AdmitOutcome::Stale),
                TurnBranch::Refused(refusal) => Ok(AdmitOutcome::Refused(refusal)),
            },
            Target::Anew { source } => match branch::anew(connection, admission, *source)? {
                Some(state) => start(connection, instance, admission, state, Resolution::Branched),
                None => Ok(AdmitOutcome::Stale),
            },
            _ if admission.seen != Seen::Nothing => Ok(AdmitOutcome::Stale),
            Target::Alias { alias, namespace, must_exist } if *must_exist || !alias.may_be_created_in(*namespace) => {
                Ok(AdmitOutcome::Refused(Refusal::NotFound))
            }
            // A conversation that does not exist yet has no revision.
            _ if admission.scope.expected.is_some() => Err(StoreError::VersionMismatch),
            Target::New => match found_meanwhile(connection, admission)? {
                Some(outcome) => Ok(outcome),
                None => create(connection, instance, admission),
            },
            Target::Alias { .. } => create(connection, instance, admission),
        };
    };
    if !is_expected(connection, &state, admission)? {
        return Ok(AdmitOutcome::Stale);
    }
    if let Some(refusal) = refusal(&state, admission) {
        return Ok(AdmitOutcome::Refused(refusal));
    }
    let version = state.version;
    let ahead = turn_ahead(connection, instance, &mut state, admission)?;
    // The turn of a dead owner was ended just now. A retry may be a further attempt of it, and would be a turn of its
    // own if it waited without knowing that.
    if state.version != version && admission.ticket.is_none() && admission.retry.may_repeat() {
        return Ok(AdmitOutcome::Stale);
    }
    check_revision(connection, &state, admission, ahead.is_some())?;
    if let Some(ahead) = ahead
        && (admission.policy != TurnPolicy::Branch || admission.is_further_attempt() || state.provisional)
    {
        return wait(connection, instance, admission, &state, resolution, ahead);
    }
    if admission.seen != Seen::At(state.facts.id, Version(state.version)) {
        return Ok(AdmitOutcome::Stale);
    }
    if ahead.is_some() {
        let branch = branch::leave(connection, admission, &state)?;
        return start(connection, instance, admission, branch, Resolution::Branched);
    }
    let resolution = match state.facts.origin_kind {
        _ if !state.provisional => resolution,
        SessionKind::Branch => Resolution::Branched,
        _ => Resolution::Created,
    };
    start(connection, instance, admission, state, resolution)
}

/// Whether an admission looks at no turn of another conversation, and at no turn by its id. The fingerprint is
/// [`retry`]'s matter.
fn is_for_its_conversation_alone(admission: &Admission) -> bool {
    let target_is_its_own = match &admission.target {
        Target::Alias { alias, .. } => TurnName::parse(alias.as_str()).is_none(),
        Target::New => true,
        Target::Branch { .. } | Target::Anew { .. } => false,
    };
    target_is_its_own
        && admission.ticket.is_none()
        && !admission.takes_over
        && !admission.is_further_attempt()
        && admission.retry.idempotency.is_none()
        && admission.creation.parent.is_none()
}

/// Whether a search by history finds what the caller has in memory.
fn is_expected(connection: &Connection, state: &ConversationState, admission: &Admission) -> StoreResult<bool> {
    let Some(expected) = &admission.expected_history else { return Ok(true) };
    let found = histories::find(connection, &admission.scope, &expected.within, &expected.ends)?;
    let is_here = |found: FoundHistory| found.turn == expected.turn && found.conversation == state.facts.id;
    Ok(!state.ended && found.is_some_and(is_here))
}

/// For a request that names no conversation and found none: whether there is one now.
fn found_meanwhile(connection: &Connection, admission: &Admission) -> StoreResult<Option<AdmitOutcome>> {
    let Creation { chat, kind, .. } = admission.creation;
    let within = HistoryScope { session_key: admission.session_key.clone(), chat, kind };
    if histories::is_chat_known(connection, &admission.scope, &within)? {
        return Ok(Some(AdmitOutcome::Stale));
    }
    let Some(opening) = admission.opening else { return Ok(None) };
    let waiting = histories::waiting(connection, &admission.scope, &within, opening)?;
    Ok(waiting.map(AdmitOutcome::Waiting))
}

/// Makes the conversation of a turn, if what the request declares about it is valid.
fn create(connection: &Connection, instance: &mut Instance, admission: &Admission) -> StoreResult<AdmitOutcome> {
    let creation = &admission.creation;
    let declared = match creation.kind {
        SessionKind::Branch => Declared::Invalid(InvalidDeclaration::BranchOfNothing),
        _ => Declared::of(connection, &admission.scope, creation)?,
    };
    let parent = match declared {
        Declared::Parent(parent) => parent,
        Declared::NoParent => return Ok(AdmitOutcome::Refused(Refusal::NoParent)),
        Declared::Invalid(why) => return Ok(AdmitOutcome::Refused(Refusal::Undeclarable(why))),
    };
    let state = conversation::create(connection, admission, parent.as_ref())?;
    start(connection, instance, admission, state, Resolution::Created)
}

/// The outcome for a request that may only repeat an earlier one, but repeats none. The caller found that in the
/// conversation as it read it. If that has changed, or changes here because a dead owner's turn is ended, the caller
/// has to read again.
fn not_repeated(connection: &Connection, instance: &mut Instance, admission: &Admission) -> StoreResult<AdmitOutcome> {
    let Some((mut state, _)) = find(connection, instance, admission)? else {
        return Ok(AdmitOutcome::Refused(Refusal::NotRepeated));
    };
    takeover::live_turn(connection, instance, &mut state, admission.now)?;
    let is_current = admission.seen == Seen::At(state.facts.id, Version(state.version));
    Ok(if is_current { AdmitOutcome::Refused(Refusal::NotRepeated) } else { AdmitOutcome::Stale })
}

fn find(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
) -> StoreResult<Option<(ConversationState, Resolution)>> {
    let Target::Alias { alias, namespace, .. } = &admission.target else { return Ok(None) };
    if let Some(name) = admissions::name_of(admission) {
        instance.lookups.check(connection)?;
        if let Some(found) = instance.lookups.take(&name) {
            return Ok(Some(found));
        }
    }
    let found = snapshot::find(connection, admission.scope.tenant, alias, *namespace)?;
    let Some((mut state, session)) = found else { return Ok(None) };
    instance.lookups.leave_out(state.key);
    if state.has_admission {
        admissions::write_out(connection, state.key)?;
        state = snapshot::load(connection, state.key)?;
    }
    let resolution =
        if session.is_none_or(|session| session == state.head) { Resolution::Head } else { Resolution::Moved };
    Ok(Some((state, resolution)))
}

fn refusal(state: &ConversationState, admission: &Admission) -> Option<Refusal> {
    let stored = state.facts.session_key.as_ref();
    if !admission.scope.keys.sees(stored) {
        return Some(Refusal::NotFound);
    }
    if state.ended {
        return Some(Refusal::Ended);
    }
    match (stored, &admission.session_key) {
        (Some(stored), Some(asked)) if stored != asked => Some(Refusal::SessionKeyConflict),
        _ => None,
    }
}

/// [`StoreError::VersionMismatch`] if a turn expects another revision of its conversation. A turn that would have to
/// wait is refused at once, because the turns before it change the revision. The retry of a failed request is let in:
/// its own failure is the change, and the request was at the expected revision when it first came.
fn check_revision(
    connection: &Connection,
    state: &ConversationState,
    admission: &Admission,
    must_wait: bool,
) -> StoreResult<()> {
    let checked = match &admission.scope.expected {
        Some(ExpectedRevision::OneOf(_)) if must_wait => Err(StoreError::VersionMismatch),
        _ => admission.scope.check(state.facts.id, state.revision()),
    };
    if let (Err(_), Some(failed), true) = (&checked, admission.retry_of, admission.retry.may_repeat())
        && retry::is_of(connection, failed, &admission.retry)?
    {
        return Ok(());
    }
    checked
}

/// The running turn that the admission has to wait for. A turn that did not yield in time to an interrupt is ended
/// here, and a parked turn that is interrupted.
fn live_turn(
    connection: &Connection,
    instance: &Instance,
    state: &mut ConversationState,
    admission: &Admission,
) -> StoreResult<Option<TurnId>> {
    let now = admission.now;
    let Some(live) = takeover::live_turn(connection, instance, state, now)? else { return Ok(None) };
    if admission.policy == TurnPolicy::Interrupt {
        match live.stop_requested {
            _ if live.is_parked => {
                end_parked(connection, state, live.key, StopKind::Interrupt, now)?;
                return Ok(None);
            }
            None => {
                connection
                    .execute(
                        "UPDATE turns SET stop_requested = ?2, stop_kind = ?3 WHERE pk = ?1",
                        params![live.key, now.0, StopKind::Interrupt.as_str()],
                    )
                    .translated()?;
            }
            Some(at) if now.since(at) > admission.interrupt_grace => {
                take_over(connection, state, live.key, TakeoverReason::of(live.stop_kind), now)?;
                return Ok(None);
            }
            Some(_) => {}
        }
    }
    Ok(Some(live.id))
}

/// The turn that an admission has to wait for.
#[derive(Clone, Copy)]
enum TurnAhead {
    Running(TurnId),
    Waiting(TurnId),
}

/// The turn that goes before an admission: the running turn, or one that waits longer.
fn turn_ahead(
    connection: &Connection,
    instance: &Instance,
    state: &mut ConversationState,
    admission: &Admission,
) -> StoreResult<Option<TurnAhead>> {
    if let Some(running) = live_turn(connection, instance, state, admission)? {
        return Ok(Some(TurnAhead::Running(running)));
    }
    if state.waiting == 0 {
        return Ok(None);
    }
    let first = queue::first(connection, instance, state.key, admission.now)?;
    Ok(first.filter(|first| first.goes_before(admission)).map(|first| TurnAhead::Waiting(first.id)))
}

fn wait(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
    state: &ConversationState,
    resolution: Resolution,
    ahead: TurnAhead,
) -> StoreResult<AdmitOutcome> {
    let facts = Arc::clone(&state.facts);
    let (running, ahead) = match ahead {
        TurnAhead::Running(turn) => (Some(turn), turn),
        TurnAhead::Waiting(turn) => (None, turn),
    };
    if let Some(ticket) = admission.ticket {
        return Ok(AdmitOutcome::Queued { ticket, facts, running, since: admission.now, attempt_of: None });
    }
    if admission.policy == TurnPolicy::Reject {
        return Ok(AdmitOutcome::Refused(Refusal::Busy(ahead)));
    }
    let limit = i64::from(admission.queue_limit);
    if state.waiting >= limit && queue::length(connection, instance, state.key, admission.now)? >= limit {
        return Ok(AdmitOutcome::Refused(Refusal::QueueFull { limit: admission.queue_limit }));
    }
    let repeated = match waits_as(connection, admission, state.key)? {
        WaitsAs::Itself => None,
        WaitsAs::AttemptOf(repeated) => Some(repeated),
        WaitsAs::Nothing => return Ok(AdmitOutcome::Stale),
    };
    let response = admission.response.as_ref().filter(|_| repeated.is_none());
    instance.lookups.forget_turn();
    let (ticket, since) = if admission.takes_over {
        queue::enter_again(connection, instance, admission, state, resolution)?
    } else {
        let waiter = NewWaiter {
            tenant: admission.scope.tenant.0,
            conversation: state.key,
            session: state.head,
            id: admission.turn,
            api: admission.api,
            owner: instance.key(connection, admission.now)?,
            policy: admission.policy,
            retry: &admission.retry,
            resolution: resolution.as_str(),
            response,
            attempt_of: repeated.as_ref().map(|repeated| repeated.turn),
            now: admission.now,
        };
        let since = repeated.as_ref().map_or(admission.now, |repeated| repeated.asked_at);
        (queue::add(connection, &waiter)?, since)
    };
    let is_visible_while_queued = response.is_some_and(|response| response.visible_while_queued);
    if is_visible_while_queued {
        waiting::store(connection, ticket, &admission.messages)?;
    }
    // A further attempt may give up its place. Until it begins, its idempotency key leads to the turn that it repeats.
    // If its own id was given out, it is a turn of its own from here on.
    if let Some(repeated) = &repeated {
        retry::bind(connection, admission, repeated.key)?;
    } else if is_visible_while_queued || !admission.is_further_attempt() {
        retry::bind(connection, admission, ticket)?;
    }
    instance.live.insert(ticket, Fence(0));
    instance.deliveries.began(admission.scope.tenant, admission.turn, ticket);
    let attempt_of = repeated.map(|repeated| repeated.turn);
    Ok(AdmitOutcome::Queued { ticket: Ticket(ticket), facts, running, since, attempt_of })
}

/// Gives the turn the lease: a new fence, its messages, its row.
fn start(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
    mut state: ConversationState,
    resolution: Resolution,
) -> StoreResult<AdmitOutcome> {
    let fence = state.fence + 1;
    let brings_key = admission.session_key.is_some() && state.facts.session_key.is_none();
    let lease = NewLease { owner: instance.key(connection, admission.now)?, fence, resolution, brings_key };
    let may_be_one_row = match resolution {
        Resolution::Head | Resolution::Moved => true,
        // A parent counts its children and their turns.
        Resolution::Created => admission.creation.parent.is_none(),
        // Branches without turns are found by their history.
        Resolution::Branched => false,
    };
    if may_be_one_row
        && !brings_key
        && let Some(message) = admissions::only_message(admission, &state)
    {
        let given = (lease.owner, fence, resolution);
        let key = admissions::add(connection, instance, admission, message, &state, given)?;
        let row = TurnRow { key, id: admission.turn, attempt: 1, started_at: admission.now, usage: None };
        let message = stored_message(&state, &row, state.next_seq, message.clone(), admission.now);
        return running(connection, instance, admission, state, &row, lease, vec![message]);
    }
    instance.lookups.forget_turn();
    let ticket = match admission.ticket {
        None if admission.takes_over => {
            Some(Ticket(queue::enter_again(connection, instance, admission, &state, resolution)?.0))
        }
        ticket => ticket,
    };
    let waited_in = ticket.map(|ticket| queue::conversation_of(connection, ticket)).transpose()?;
    let row = match (admission.retry_of, admission.anew_of) {
        (Some(last), _) => next_attempt(connection, admission, &state, last, lease)?,
        (None, Some(unanswered)) => attempt_at_the_end(connection, admission, &state, unanswered, lease)?,
        (None, None) => Some(first_attempt(connection, admission, ticket, &state, lease)?),
    };
    let Some(row) = row else { return Ok(AdmitOutcome::Stale) };
    let mut messages = Vec::with_capacity(admission.messages.len());
    for (nth, (seq, message)) in (state.next_seq..).zip(&admission.messages).enumerate() {
        let id = if row.id == admission.turn { message.id } else { MessageId::brought(row.id, row.attempt, nth) };
        let message = NewMessage { id, said: message.said.clone() };
        insert_message(connection, state.head, seq, row.key, row.attempt, &message, admission.now)?;
        messages.push(stored_message(&state, &row, seq, message, admission.now));
    }
    if let Some(waited_in) = waited_in {
        queue::count(connection, waited_in, -1)?;
    }
    connection
        .prepare_cached(
            "UPDATE conversations SET version = version + 1, fence = ?2, running_turn = ?3, next_seq = next_seq + ?4,
             message_count = message_count + ?4, turn_count = turn_count + ?5, provisional = 0 WHERE pk = ?1",
        )
        .and_then(|mut update| {
            update.execute(params![
                state.key,
                fence,
                row.key,
                admission.messages.len() as i64,
                i64::from(row.attempt == 1),
            ])
        })
        .translated()?;
    retry::bind(connection, admission, row.key)?;
    if brings_key {
        Arc::make_mut(&mut state.facts).session_key.clone_from(&admission.session_key);
        conversation::store_session_key(connection, admission.scope.tenant, &state)?;
    }
    if let Some(ticket) = ticket {
        instance.live.remove(ticket.0);
    }
    running(connection, instance, admission, state, &row, lease, messages)
}

/// A message of a turn that starts, at its place.
fn stored_message(
    state: &ConversationState,
    row: &TurnRow,
    seq: i64,
    NewMessage { id, said }: NewMessage,
    now: Timestamp,
) -> Arc<Message> {
    Arc::new(Message {
        id,
        seq: Seq(seq),
        session: state.facts.head.id.clone(),
        turn: row.id,
        attempt: row.attempt,
        created_at: now,
        said,
    })
}

/// The outcome for a turn that has got the lease.
fn running(
    connection: &Connection,
    instance: &mut Instance,
    admission: &Admission,
    state: ConversationState,
    row: &TurnRow,
    NewLease { fence, resolution, .. }: NewLease,
    messages: Vec<Arc<Message>>,
) -> StoreResult<AdmitOutcome> {
    let tenant = admission.scope.tenant;
    let session_key = state.facts.session_key.as_ref();
    let memory = session_key.map(|key| memories::versions::of(connection, tenant, key)).transpose()?;
    instance.live.insert(row.key, Fence(fence));
    instance.deliveries.began(tenant, row.id, row.key);
    Ok(AdmitOutcome::Running(Box::new(Running {
        turn: row.id,
        attempt: row.attempt,
        lease: Lease {
            tenant,
            conversation: state.key,
            turn: row.key,
            fence: Fence(fence),
            id: row.id,
            attempt: row.attempt,
            renewal_series: instance.renewal_series(),
            resumed: false,
        },
        facts: state.facts,
        version: Version(state.version + 1),
        revision: Revision::after_turn(Fence(fence), state.changes),
        messages,
        resolution,
        started_at: row.started_at,
        usage: row.usage,
        memory,
        durable: Receipt::durable(),
    })))
}

//! From a request to the lease of its conversation.
//!
//! The history is read first, from memory or from the store, and the request is aligned with it. The store then gives the lease only if the
//! conversation is still at the version that was read; otherwise all of this is done again. So what the model is shown is always
//! what was there when the lease was taken.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use herma_model::alias::Namespace;
use herma_model::turn::FailureCode;
use herma_model::{
    Alias, ConversationId, Digest, MessageId, NewMessage, Resolution, TurnFailure, TurnId, TurnState, Utterance,
};
use herma_store::admission::Idempotency;
use herma_store::{
    Admission, AdmitOutcome, Creation, Durability, Extent, Intent, Refusal, RetryIdentity, Running, Scope, Seen,
    Snapshot, Target, TurnRecord,
};
use herma_turn::{Stop, repeats_history};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::compaction::{Load, exceeded, longer_than, transcript};
use crate::error::{Conflict, GatewayError, InvalidRequest, KeyProblem};
use crate::gateway::{Gateway, Registered};
use crate::history::History;
use crate::input::Input;
use crate::log::{SessionView, TurnLog};
use crate::mint;
use crate::repeated::Repeated;
use crate::request::{ConversationRef, Policy, TurnRequest};
use crate::waiting::Waiting;

/// How often a conversation may change under a request before it is given up; each time somebody else made progress. Waiting is
/// bounded by time, not by this.
const MOST_TRIES: u32 = 100;
/// How long a running turn may take to yield before it is cut off.
pub(crate) const INTERRUPT_GRACE: Duration = Duration::from_secs(2);
/// What a client is told to wait when a conversation is busy.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What became of a request at the door.
pub(crate) enum Admitted {
    /// It has the lease.
    Running(Box<AdmittedTurn>),
    /// It is this turn.
    Joined(TurnId),
    /// It is this promised turn, which ended before it began, and takes over its id.
    NeverBegan(TurnId),
}

/// A turn with its lease, and the conversation as it was when the lease was taken.
pub(crate) struct AdmittedTurn {
    pub(crate) running: Running,
    /// Whether it is an attempt that begins anew at the end.
    pub(crate) is_anew: bool,
    /// The history before this turn.
    pub(crate) before: Option<Snapshot>,
    /// The name to remember the conversation by.
    pub(crate) alias: Alias,
}

/// A request on its way in.
pub(crate) struct PendingAdmission<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) request: &'a TurnRequest,
    pub(crate) turn: TurnId,
    /// Whether that is the id of a promised turn of the same request, which ended before it began.
    pub(crate) takes_over: bool,
    /// The request's entry among the live turns.
    pub(crate) registered: &'a Registered<'a>,
    pub(crate) log: &'a TurnLog,
    pub(crate) stop: &'a mut watch::Receiver<Option<Stop>>,
}

impl<'a> PendingAdmission<'a> {
    /// Asks until there is a decision. Not cancel-safe: a waiting turn has to be withdrawn, which this does itself when it ends early.
    pub(crate) async fn decide(&mut self) -> Result<Admitted, GatewayError> {
        let scope = self.scope();
        if let Some(key) = &self.request.caller.session_key
            && !scope.keys.allows(key)
        {
            return Err(GatewayError::SessionKey(KeyProblem::NotAllowed));
        }
        let until = Instant::now() + self.gateway.settings.queue_timeout;
        let mut waiting = Waiting::new(until);
        // A defect must not leave a place in line behind that nobody will ever take.
        let asked = AssertUnwindSafe(self.ask(&scope, &mut waiting)).catch_unwind().await;
        let outcome = asked.unwrap_or_else(|_| Err(GatewayError::Turn(defect())));
        if let Some(line) = waiting.line.take_if(|_| !matches!(outcome, Ok(Admitted::Running(_)))) {
            let why = outcome.as_ref().err().map_or_else(defect, given_up);
            // Out of the live turns first: when the place is free, another attempt may be registered under the same id.
            let attempt_of = waiting.attempt_of.take().map(|attempt| attempt.turn());
            let _ = self.gateway.store.withdraw(&scope, self.turn, why.clone(), mint::now()).await;
            line.give_up();
            if let Some(turn) = attempt_of.filter(|_| outcome.is_err()) {
                // The turn stands again as it did before, or was cancelled: the store knows.
                return Ok(Admitted::Joined(turn));
            }
            if outcome.is_err() && self.request.is_visible_while_queued() {
                // Who reads it now is told what everybody is told who reads it later.
                return Err(GatewayError::Turn(why));
            }
        }
        outcome
    }

    fn scope(&self) -> Scope {
        let principal = &self.request.caller.principal;
        Scope::of(principal)
    }

    async fn ask(&mut self, scope: &Scope, waiting: &mut Waiting<'a>) -> Result<Admitted, GatewayError> {
        let mut place = self.request.destination.conversation.clone();
        let mut opening = Opening::MayRepeat;
        let mut extent = Extent::View;
        let mut stale = 0;
        let mut repeated = None;
        while stale < MOST_TRIES {
            let History { before, is_fresh, target } = self.history(scope, &place, extent).await?;
            let creation = self.creation();
            let conversation = before.as_ref().map_or(creation.conversation, |snapshot| snapshot.facts.id);
            let retry = retry_identity(self.request, conversation, before.as_ref());
            let earlier = match repeated {
                Some(turn) => self.repeated(scope, turn).await?,
                None => None,
            };
            if let Some(Repeated::Over(turn)) = earlier {
                return Ok(Admitted::Joined(turn));
            }
            // Another attempt of the turn whose id was given out runs.
            if let Some(attempt) = waiting.attempt_of.as_ref().filter(|_| earlier.is_none()) {
                return Ok(Admitted::Joined(attempt.turn()));
            }
            let aligned = match opening {
                Opening::Repeats => before.as_ref().and_then(Input::of_only_turn).map(Ok),
                Opening::MayRepeat | Opening::IsNew => Input::of(self.request, before.as_ref()),
            };
            let Some(input) = aligned else {
                match opening {
                    Opening::Repeats if is_fresh => (place, opening) = self.own_opening(),
                    // What was in memory may be old, and is out of it now.
                    Opening::Repeats => {}
                    Opening::MayRepeat | Opening::IsNew => (extent, stale) = (Extent::Whole, stale + 1),
                }
                continue;
            };
            let input = match (&earlier, &before) {
                (Some(earlier), Some(before)) => earlier.input(input, before),
                _ => input,
            };
            let is_apart = match &input {
                Ok(input) => self.is_apart(scope, input, before.as_ref(), waiting, &retry).await?,
                Err(_) => Apart::No,
            };
            let input = match is_apart {
                // What is in memory may be old, and is out of it now: another process may have tried the turn since.
                Apart::GoesOnElsewhere if !is_fresh => continue,
                Apart::Yes | Apart::GoesOnElsewhere => input.map(|input| input.into_new_turn(self.request)),
                Apart::No => input,
            };
            if opening == Opening::Repeats && !input.as_ref().is_ok_and(|input| input.retry_of.is_some()) {
                (place, opening) = self.own_opening();
                continue;
            }
            let input = input
                .and_then(|input| check_window(self.gateway, self.request, before.as_ref(), &input).map(|()| input));
            // What is wrong as a new request may still be the repetition of one that was right when it first came, or be wrong only
            // because a process died in the middle of a turn that nobody has ended yet.
            let (input, intent, flaw) = match input {
                Ok(input) => (input, Intent::Lease, None),
                // What is in memory may be old, and is out of it now: only what the store says can refuse a request.
                Err(_) if !is_fresh => continue,
                Err(flaw) if waiting.ticket.is_none() && (retry.may_repeat() || before.is_some()) => {
                    let anew_of = earlier.as_ref().and_then(Repeated::unanswered);
                    (Input { new: &[], retry_of: None, anew_of }, Intent::Repeat, Some(flaw))
                }
                Err(flaw) => return Err(flaw),
            };
            let (is_to_continue, is_retry) = (matches!(target, Target::Alias { .. }), retry.may_repeat());
            let admission = Admission {
                scope: scope.clone().expecting(self.request.destination.expected.clone()),
                turn: self.turn,
                takes_over: self.takes_over,
                ticket: waiting.ticket,
                intent,
                target,
                seen: before.as_ref().map_or(Seen::Nothing, |snapshot| Seen::At(snapshot.facts.id, snapshot.version)),
                messages: self.brought(input.new),
                session_key: self.request.caller.session_key.clone(),
                // Of two requests that repeat one opening, the second is no attempt of it: it does not wait there.
                policy: if opening == Opening::Repeats { Policy::Reject } else { self.request.destination.policy },
                queue_limit: self.gateway.settings.queue_limit,
                interrupt_grace: INTERRUPT_GRACE,
                retry,
                client: self.request.identity.client.clone(),
                may_reopen: opening == Opening::MayRepeat,
                retry_of: input.retry_of,
                anew_of: input.anew_of,
                creation,
                response: self.request.options.response.clone(),
                durability: if self.request.options.streaming { Durability::Now } else { Durability::WithCommit },
                api: self.request.identity.route,
                now: mint::now(),
            };
            tracing::debug!(turn = %self.turn, %conversation, "the lease is asked for");
            let asked = self.gateway.live.lines.now();
            match self.gateway.store.admit(admission).await? {
                AdmitOutcome::Running(running) => {
                    let left = running.resolution == Resolution::Branched && is_to_continue;
                    let before = if left { Some(self.inherited(scope, &running).await?) } else { before };
                    let alias = match place {
                        ConversationRef::Named { .. } if left => own_alias(running.facts.head.id.as_str())?,
                        ConversationRef::Named { alias, .. } => alias,
                        _ if self.request.options.response.is_some() => {
                            own_alias(&running.turn.as_response().to_string())?
                        }
                        ConversationRef::New | ConversationRef::Stateless | ConversationRef::After(_) => {
                            own_alias(running.facts.head.id.as_str())?
                        }
                    };
                    let is_anew = input.anew_of.is_some();
                    return Ok(Admitted::Running(Box::new(AdmittedTurn { running: *running, is_anew, before, alias })));
                }
                AdmitOutcome::Queued { ticket, facts, running, since, attempt_of } => {
                    // Other turns may be answered while it waits. A retry stays an attempt of the turn that it repeats.
                    // One whose own id is given out now repeats none.
                    repeated = match waiting.ticket {
                        None if self.request.is_visible_while_queued() => attempt_of,
                        _ => repeated.or(input.retry_of.filter(|_| is_retry)),
                    };
                    if let Some(turn) = attempt_of {
                        waiting.attempt_of = Some(self.registered.again(turn));
                    }
                    let turn = attempt_of.unwrap_or(self.turn);
                    let view = SessionView {
                        facts,
                        requested: self.request.destination.conversation.name(),
                        resolution: Resolution::Head,
                        rotated: false,
                        revision: None,
                    };
                    self.wait(waiting, (ticket, asked), (turn, since), view, running).await?;
                }
                AdmitOutcome::Joined(turn) => return Ok(Admitted::Joined(turn)),
                AdmitOutcome::NeverBegan(turn) => return Ok(Admitted::NeverBegan(turn)),
                AdmitOutcome::RetryIn(there, turn) => {
                    if repeated.replace(turn) == Some(turn) {
                        stale += 1;
                    }
                    if !matches!(place, ConversationRef::Named { .. }) || there != conversation {
                        place = own_place(there)?;
                    }
                }
                AdmitOutcome::Reopen(conversation) => {
                    (place, opening) = (own_place(conversation)?, Opening::Repeats);
                }
                AdmitOutcome::Stale => stale += 1,
                AdmitOutcome::Refused(_) if opening == Opening::Repeats => (place, opening) = self.own_opening(),
                AdmitOutcome::Refused(refusal) => {
                    return Err(match (refusal, flaw) {
                        (Refusal::NotRepeated, Some(flaw)) => flaw,
                        (Refusal::NotFound, _) if matches!(place, ConversationRef::After(_)) => {
                            GatewayError::previous_not_found()
                        }
                        (refusal, _) => refused(&refusal),
                    });
                }
            }
        }
        Err(GatewayError::changes_too_fast())
    }

    /// Where a request goes that is no other attempt of a first turn after all.
    fn own_opening(&self) -> (ConversationRef, Opening) {
        (self.request.destination.conversation.clone(), Opening::IsNew)
    }

    /// Whether a request that says what an unanswered turn was asked is a turn of its own all the same. An id that was given out says
    /// how its turn ended until the very same request comes again, what was cancelled by its id stays so, and a response never becomes a run, nor
    /// a run a response.
    async fn is_apart(
        &self,
        scope: &Scope,
        input: &Input<'_>,
        before: Option<&Snapshot>,
        waiting: &Waiting<'_>,
        retry: &RetryIdentity,
    ) -> Result<Apart, GatewayError> {
        let Some(earlier) = input.retry_of else { return Ok(Apart::No) };
        let attempt_of = waiting.attempt_of.as_ref().map(Registered::turn);
        let has_own_id = (waiting.ticket.is_some() || self.takes_over) && attempt_of != Some(earlier);
        if self.request.is_visible_while_queued() && (has_own_id || !retry.may_repeat()) {
            return Ok(Apart::Yes);
        }
        let Some(earlier) = self.gateway.store.turn(scope, earlier).await? else { return Ok(Apart::No) };
        let is_another_kind = self.request.options.response.is_some() && earlier.echo.is_some();
        Ok(match before {
            _ if earlier.called_off || is_another_kind && &*earlier.api != self.request.identity.route => Apart::Yes,
            Some(before) if goes_on_elsewhere(&earlier, before) => Apart::GoesOnElsewhere,
            _ => Apart::No,
        })
    }

    fn brought(&self, new: &[Utterance]) -> Vec<NewMessage> {
        let message = |(nth, said): (usize, &Utterance)| NewMessage {
            id: MessageId::brought(self.turn, 1, nth),
            said: said.clone(),
        };
        new.iter().enumerate().map(message).collect()
    }

    fn creation(&self) -> Creation {
        Creation {
            conversation: mint::conversation(),
            session: mint::session(),
            kind: self.request.destination.kind,
            creator: self.request.caller.origin.creator,
            source: Arc::from(self.request.caller.origin.source),
            owner: self.request.caller.principal.key,
            reason: None,
            parent: self.request.destination.parent.clone(),
        }
    }
}

/// Whether a request that says what an unanswered turn was asked is a turn of its own all the same.
enum Apart {
    /// It is another attempt of that turn.
    No,
    /// It is one of its own.
    Yes,
    /// It is one of its own, if what was read of the conversation is not old.
    GoesOnElsewhere,
}

/// Whether an unanswered turn of a conversation cannot be tried again in its place, because it went on at another one:
/// a rewind hides where it began anew and perhaps was answered, or the conversation is a branch that was rewound to a
/// turn of its source.
fn goes_on_elsewhere(earlier: &TurnRecord, before: &Snapshot) -> bool {
    let shown = before.unanswered.get(&earlier.id).map(|unanswered| unanswered.attempt);
    earlier.facts.id != before.facts.id
        || earlier.state == TurnState::Completed
        || !earlier.state.is_live() && shown.is_some_and(|attempt| attempt < earlier.attempt)
}

/// Refuses what cannot fit, not even after a compaction, before anything is written.
pub(crate) fn check_window(
    gateway: &Gateway,
    request: &TurnRequest,
    before: Option<&Snapshot>,
    input: &Input<'_>,
) -> Result<(), GatewayError> {
    // What is only added need not fit yet: whoever asks next makes room.
    if request.input.all_new {
        return Ok(());
    }
    let asked = request.options.model.as_deref();
    let (model, window) = gateway.settings.resolve_model(asked);
    let Some(window) = window.map(u64::from) else { return Ok(()) };
    let load = Load::of(request, before, input.new);
    if load.total <= window {
        return Ok(());
    }
    let new: u64 = input.new.iter().map(|said| u64::from(said.tokens)).sum();
    let why = match before {
        Some(_) if load.front + new >= window => Some("what is new is too much by itself".to_owned()),
        _ if request.options.truncate => None,
        Some(_) => gateway.cannot_compact(),
        None if request.destination.conversation == ConversationRef::Stateless => {
            Some("nothing of it is kept, so nothing can be summarised".to_owned())
        }
        None => Some("there is nothing to summarise yet".to_owned()),
    };
    match why {
        None => Ok(()),
        Some(why) => Err(GatewayError::Turn(exceeded(&longer_than(load.total, &model, window), &why))),
    }
}

/// How a request is recognised if it comes again. `before` is the conversation that it names.
pub(crate) fn retry_identity(
    request: &TurnRequest,
    conversation: ConversationId,
    before: Option<&Snapshot>,
) -> RetryIdentity {
    let identity = &request.identity;
    let tenant = request.caller.principal.tenant.0.to_le_bytes();
    let key = request.caller.principal.key.map(|key| key.uuid().into_bytes()).unwrap_or_default();
    let name = request.destination.conversation.name();
    let alias = name.as_deref().unwrap_or("");
    let session_key = request.caller.session_key.as_ref().map_or("", |key| key.as_str());
    let user = identity.user.as_deref().unwrap_or("");
    let route = identity.route.as_bytes();
    let who = [&tenant[..], &key, session_key.as_bytes(), user.as_bytes()];
    let what = [route, alias.as_bytes(), &identity.body];
    let Digest(fingerprint) = Digest::of_fields(who.into_iter().chain(what));
    let scope_of =
        |name: &str, wanted: &str| Digest::of_fields([&tenant[..], &key, route, name.as_bytes(), wanted.as_bytes()]).0;
    let idempotency = identity.idempotency_key.as_ref().map(|wanted| Idempotency {
        scopes: [scope_of(alias, wanted), scope_of(&conversation.to_string(), wanted)],
        body: identity.body,
    });
    let unseen = identity.sdk_attempt > 0 && shows_unseen_answer(request, before);
    RetryIdentity { fingerprint, sdk_attempt: identity.sdk_attempt, unseen, idempotency }
}

/// Whether a retry shows by its own history that its client has not seen the answer. A request that names no
/// conversation has all of its history in it, and `previous_response_id` names the last answer that its client has
/// seen.
fn shows_unseen_answer(request: &TurnRequest, before: Option<&Snapshot>) -> bool {
    if request.input.all_new {
        return false;
    }
    match request.destination.conversation {
        ConversationRef::New | ConversationRef::Stateless | ConversationRef::After(_) => true,
        ConversationRef::Named { .. } => {
            before.is_some_and(|before| repeats_history(&request.input.messages, transcript(before)))
        }
    }
}

/// Whether a request that names no conversation is another attempt of a first turn that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// The store decides.
    MayRepeat,
    /// It is, as far as the store could tell without its messages.
    Repeats,
    /// It is not: it makes a conversation of its own.
    IsNew,
}

fn own_place(conversation: ConversationId) -> Result<ConversationRef, GatewayError> {
    let alias = own_alias(&conversation.to_string())?;
    Ok(ConversationRef::Named { alias, namespace: Namespace::Session, must_exist: true })
}

pub(crate) fn own_alias(name: &str) -> Result<Alias, GatewayError> {
    Alias::parse(name).map_err(|_| GatewayError::unknown())
}

/// What clients are told of a panic.
pub(crate) fn defect() -> TurnFailure {
    TurnFailure::new(FailureCode::Internal, "the gateway failed; the turn was given up")
}

/// Why a turn ends that was promised and never began.
fn given_up(error: &GatewayError) -> TurnFailure {
    match error {
        GatewayError::Turn(failure) => failure.clone(),
        GatewayError::Draining => TurnFailure::new(
            FailureCode::Abandoned,
            "the gateway was stopped before the turn began; send the request again",
        ),
        GatewayError::Busy { running, .. } => TurnFailure::new(
            FailureCode::Busy,
            format!("another turn ({running}) of this conversation ran longer than turns wait; send the request again"),
        ),
        refused => TurnFailure::new(FailureCode::Refused, refused.to_string()),
    }
}

pub(crate) fn cancelled() -> GatewayError {
    GatewayError::Turn(TurnFailure::new(FailureCode::Cancelled, "the turn was cancelled"))
}

fn refused(refusal: &Refusal) -> GatewayError {
    match *refusal {
        Refusal::NotFound | Refusal::NotRepeated => GatewayError::unknown(),
        Refusal::NoParent => GatewayError::Invalid(InvalidRequest::NoParent),
        Refusal::Undeclarable(why) => GatewayError::Invalid(InvalidRequest::Undeclarable(why)),
        Refusal::SessionKeyConflict => GatewayError::SessionKey(KeyProblem::Conflict),
        Refusal::Busy(running) => GatewayError::busy(running),
        Refusal::QueueFull { limit } => {
            GatewayError::Overloaded(format!("{limit} turns of this conversation wait already, which is the limit"))
        }
        Refusal::IdempotencyMismatch => GatewayError::Conflict(Conflict::IdempotencyMismatch),
        Refusal::Ended => GatewayError::Conflict(Conflict::Ended),
        Refusal::Withdrawn => cancelled(),
    }
}

//! Asking for the lease: read the history, align the request with it, ask the store, until there is a decision.

use std::sync::Arc;

use herma_model::{ConversationId, MessageId, NewMessage, TurnId, Utterance};
use herma_store::{
    Admission, Creation, Durability, Extent, Intent, RetryIdentity, Scope, Seen, Snapshot, Target, Ticket,
};
use herma_turn::Replacement;

use crate::access::KeyTurn;
use crate::admission::by_history::RequestHistory;
use crate::admission::own_turn::OwnTurn;
use crate::admission::{Admitted, INTERRUPT_GRACE, PendingAdmission, check_window, retry_identity};
use crate::error::GatewayError;
use crate::history::{History, KnownPart};
use crate::input::Input;
use crate::mint;
use crate::repeated::Repeated;
use crate::request::{ConversationRef, Policy, TurnRequest};
use crate::tools::decisions::decisions;
use crate::waiting::Waiting;

/// How often a conversation may change while a request reads it. Each time another request made progress. Waiting in
/// the queue does not count: it is bounded by time.
const MOST_TRIES: u32 = 100;

/// What a request has learnt from earlier rounds of asking.
pub(super) struct AskProgress {
    /// The conversation that the next round reads.
    pub(super) conversation: ConversationRef,
    pub(super) opening: Opening,
    /// How much of the history the next round reads.
    extent: Extent,
    /// How often the conversation had changed when the store was asked.
    pub(super) stale: u32,
    /// The turn that the request repeats, as the store said.
    pub(super) repeated: Option<TurnId>,
    /// Its history, if the request names no conversation.
    pub(super) history: Option<RequestHistory>,
    /// The turn in which a client added exactly the messages of the request, as the store said.
    pub(super) waiting: Option<TurnId>,
    /// The turn after which the request goes on with a context that its client has compacted, if it waits there.
    pub(super) compacted_after: Option<TurnId>,
}

impl AskProgress {
    fn new(request: &TurnRequest) -> Self {
        let conversation = request.destination.conversation.clone();
        let is_unnamed = conversation == ConversationRef::ByHistory;
        Self {
            conversation,
            opening: Opening::MayRepeat,
            extent: Extent::View,
            stale: 0,
            repeated: None,
            history: is_unnamed.then(|| RequestHistory::of(&request.input)).flatten(),
            waiting: None,
            compacted_after: None,
        }
    }
}

impl AskProgress {
    /// Has the next round search for the conversation again. For a request that may show its own history alone: behind
    /// other turns it is no further attempt of the turn that it repeats.
    pub(super) fn search_again(&mut self, request: &TurnRequest) {
        self.repeated = None;
        self.conversation = request.destination.conversation.clone();
        self.stale += 1;
    }
}

/// Whether a request that names no conversation is a further attempt of a first turn that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// The store decides.
    MayRepeat,
    /// It is, as far as the store can tell without the messages.
    Repeats,
    /// It is not: it makes a conversation of its own.
    IsNew,
}

/// The conversation as one round has read it, and how the request is recognised there.
struct Reading {
    history: History,
    /// What is made if the conversation is new.
    creation: Creation,
    conversation: ConversationId,
    retry: RetryIdentity,
}

/// What a request asks the store for.
struct AlignedRequest<'e> {
    input: Input<'e>,
    intent: Intent,
    /// Why the request is invalid as a new turn, if it is.
    flaw: Option<GatewayError>,
}

/// What was asked of the store: the part that is needed to understand its answer.
pub(super) struct AdmissionContext {
    pub(super) before: Option<Snapshot>,
    pub(super) conversation: ConversationId,
    /// True if the request names the conversation that it continues.
    pub(super) is_to_continue: bool,
    /// True if the request may be a repetition, by its identity.
    pub(super) is_retry: bool,
    pub(super) retry_of: Option<TurnId>,
    pub(super) anew_of: Option<TurnId>,
    /// Why the request is invalid as a new turn, if it is.
    pub(super) flaw: Option<GatewayError>,
    /// What the client has put in place of a part of the history.
    pub(super) replacement: Option<Box<Replacement>>,
}

impl<'a> PendingAdmission<'a> {
    /// Asks, and waits in the queue, until there is a decision.
    pub(super) async fn ask(&mut self, scope: &Scope, waiting: &mut Waiting<'a>) -> Result<Admitted, GatewayError> {
        let mut progress = AskProgress::new(self.request);
        while progress.stale < MOST_TRIES {
            if let Some(admitted) = self.ask_once(scope, &mut progress, waiting).await? {
                return Ok(admitted);
            }
        }
        Err(GatewayError::changes_too_fast())
    }

    /// One round: reads, aligns, asks the store, and waits if the turn is queued. `None` if another round is needed.
    async fn ask_once(
        &mut self,
        scope: &Scope,
        progress: &mut AskProgress,
        waiting: &mut Waiting<'a>,
    ) -> Result<Option<Admitted>, GatewayError> {
        let reading = self.read_conversation(scope, progress).await?;
        let earlier = match progress.repeated {
            Some(turn) => self.repeated(scope, turn).await?,
            None => None,
        };
        if let Some(turn) = joined_turn(earlier.as_ref(), waiting) {
            return Ok(Some(Admitted::Joined(turn)));
        }
        let Some(input) = self.align(progress, &reading.history, earlier.as_ref()) else { return Ok(None) };
        if self.request.shows_its_own_history_alone() && input.as_ref().is_ok_and(|input| input.anew_of.is_some()) {
            progress.search_again(self.request);
            return Ok(None);
        }
        let input = match input {
            Ok(input) => match self.separate(scope, input, &reading, waiting).await? {
                Some(input) => Ok(input),
                None => return Ok(None),
            },
            Err(flaw) => Err(flaw),
        };
        if progress.opening == Opening::Repeats && !input.as_ref().is_ok_and(|input| input.retry_of.is_some()) {
            self.open_own(progress);
            return Ok(None);
        }
        let Some(aligned) = self.choose_intent(input, &reading, earlier.as_ref(), waiting)? else { return Ok(None) };
        let (admission, context) = self.admission(scope, progress, waiting.ticket, reading, aligned);
        tracing::debug!(turn = %self.turn, conversation = %context.conversation, "the lease is asked for");
        let asked = self.gateway.live.lines.now();
        let outcome = self.gateway.store.admit(admission).await?;
        self.take_outcome(scope, outcome, context, asked, progress, waiting).await
    }

    /// Reads the conversation that the request goes to.
    async fn read_conversation(&self, scope: &Scope, progress: &AskProgress) -> Result<Reading, GatewayError> {
        let history = match (&progress.conversation, &progress.history) {
            (ConversationRef::ByHistory, Some(asked)) => {
                let found = self.history_of_unnamed(scope, asked, progress.waiting, progress.extent).await?;
                match progress.compacted_after.filter(|_| !found.continues()) {
                    Some(turn) => self.compacted_after(scope, turn).await?.unwrap_or(found),
                    None => found,
                }
            }
            (conversation, _) => self.history(scope, conversation, progress.extent).await?,
        };
        let creation = self.creation();
        let before = history.before.as_ref();
        let conversation = before.map_or(creation.conversation, |snapshot| snapshot.facts.id);
        let retry = retry_identity(self.request, conversation, before);
        Ok(Reading { history, creation, conversation, retry })
    }

    /// Aligns the request with the history. `None` if the history has to be read again, or another one. The error says
    /// why the request is invalid as a new turn.
    fn align<'e>(
        &self,
        progress: &mut AskProgress,
        history: &History,
        earlier: Option<&'e Repeated>,
    ) -> Option<Result<Input<'e>, GatewayError>>
    where
        'a: 'e,
    {
        let before = history.before.as_ref();
        let aligned = match progress.opening {
            Opening::Repeats => before.and_then(Input::of_only_turn).map(Ok),
            Opening::MayRepeat | Opening::IsNew => Input::of(self.request, before, &history.known),
        };
        let Some(input) = aligned else {
            match progress.opening {
                Opening::Repeats if history.is_fresh => self.open_own(progress),
                // The cached history may have been old. The next round reads the store, because reading a cached
                // history removes it from the cache.
                Opening::Repeats => {}
                Opening::MayRepeat | Opening::IsNew => {
                    progress.extent = Extent::Whole;
                    progress.stale += 1;
                }
            }
            return None;
        };
        Some(match (earlier, before) {
            (Some(earlier), Some(before)) => earlier.input(input, before),
            _ => input,
        })
    }

    /// Makes the input that of a new turn if it must not be a further attempt of the turn that it repeats. `None` if
    /// the history has to be read from the store to decide.
    async fn separate<'e>(
        &self,
        scope: &Scope,
        input: Input<'e>,
        reading: &Reading,
        waiting: &Waiting<'_>,
    ) -> Result<Option<Input<'e>>, GatewayError>
    where
        'a: 'e,
    {
        let Reading { history, retry, .. } = reading;
        Ok(match self.is_own_turn(scope, &input, history.before.as_ref(), waiting, retry).await? {
            OwnTurn::YesIfFresh if !history.is_fresh => None,
            OwnTurn::Yes | OwnTurn::YesIfFresh => Some(input.into_new_turn(self.request, &history.known)?),
            OwnTurn::No => Some(input),
        })
    }

    /// Decides what to ask the store for. `None` if the history has to be read from the store first.
    ///
    /// A request that is invalid as a new turn may repeat a request that was valid when it first came. It may also be
    /// invalid only because a process died in the middle of a turn that is not ended yet. So the store is asked. The
    /// same holds for a request that may have no turn, because its API key has as many as it may.
    fn choose_intent<'e>(
        &self,
        input: Result<Input<'e>, GatewayError>,
        reading: &Reading,
        earlier: Option<&Repeated>,
        waiting: &Waiting<'_>,
    ) -> Result<Option<AlignedRequest<'e>>, GatewayError> {
        let before = reading.history.before.as_ref();
        let checked = match self.key_turn.and_then(KeyTurn::refusal) {
            Some(refusal) => Err(refusal),
            None => input.and_then(|input| check_window(self.gateway, self.request, before, &input).map(|()| input)),
        };
        match checked {
            Ok(input) => Ok(Some(AlignedRequest { input, intent: Intent::Lease, flaw: None })),
            // A cached history may be old. A request is refused only by what the store says.
            Err(_) if !reading.history.is_fresh => Ok(None),
            Err(flaw) if waiting.ticket.is_none() && (reading.retry.may_repeat() || before.is_some()) => {
                let anew_of = earlier.and_then(Repeated::unanswered);
                let input = Input { new: &[], retry_of: None, anew_of };
                Ok(Some(AlignedRequest { input, intent: Intent::Repeat, flaw: Some(flaw) }))
            }
            Err(flaw) => Err(flaw),
        }
    }

    /// What the store is asked, and what is needed to understand its answer.
    fn admission(
        &self,
        scope: &Scope,
        progress: &AskProgress,
        ticket: Option<Ticket>,
        reading: Reading,
        aligned: AlignedRequest<'_>,
    ) -> (Admission, AdmissionContext) {
        let Reading { history: History { before, target, known, expected, .. }, creation, conversation, retry } =
            reading;
        let opening = progress.opening;
        let AlignedRequest { input, intent, flaw } = aligned;
        let context = AdmissionContext {
            conversation,
            is_to_continue: matches!(target, Target::Alias { .. }),
            is_retry: retry.may_repeat(),
            retry_of: input.retry_of,
            anew_of: input.anew_of,
            flaw,
            before,
            replacement: match known {
                KnownPart::Replaced(replacement) => Some(replacement),
                KnownPart::ByAlignment | KnownPart::First(_) | KnownPart::All => None,
            },
        };
        let before = context.before.as_ref();
        let decisions = match (input.retry_of, intent) {
            (None, Intent::Lease) => decisions(self.request, before),
            (Some(_), _) | (None, Intent::Repeat) => Vec::new(),
        };
        // Decisions are on disk before their calls are made.
        let is_durable_now = self.request.options.streaming || !decisions.is_empty();
        let admission = Admission {
            scope: scope.clone().expecting(self.request.destination.expected.clone()),
            turn: self.turn,
            takes_over: self.takes_over,
            ticket,
            intent,
            target,
            seen: before.map_or(Seen::Nothing, |snapshot| Seen::At(snapshot.facts.id, snapshot.version)),
            messages: self.new_messages(input.new.iter().chain(&decisions)),
            session_key: self.request.caller.session_key.clone(),
            // If two requests repeat one opening, the second is no attempt of it, so it does not wait there.
            policy: if opening == Opening::Repeats { Policy::Reject } else { self.request.destination.policy },
            queue_limit: self.gateway.settings.queue_limit,
            interrupt_grace: INTERRUPT_GRACE,
            retry,
            client: self.request.identity.client.clone(),
            may_reopen: opening == Opening::MayRepeat,
            opening: progress.history.as_ref().and_then(|asked| asked.opening(&self.request.input)),
            expected_history: expected,
            own_history_alone: self.request.shows_its_own_history_alone(),
            retry_of: input.retry_of,
            anew_of: input.anew_of,
            creation,
            response: self.request.options.response.clone(),
            durability: if is_durable_now { Durability::Now } else { Durability::WithCommit },
            api: self.request.identity.route,
            now: mint::now(),
        };
        (admission, context)
    }

    /// Has the next round go where the request says, in a conversation of its own: it is no further attempt of a first
    /// turn.
    pub(super) fn open_own(&self, progress: &mut AskProgress) {
        progress.conversation = self.request.destination.conversation.clone();
        progress.opening = Opening::IsNew;
    }

    fn new_messages<'m>(&self, new: impl Iterator<Item = &'m Utterance>) -> Vec<NewMessage> {
        let message = |(nth, said): (usize, &Utterance)| NewMessage {
            id: MessageId::brought(self.turn, 1, nth),
            said: said.clone(),
        };
        new.enumerate().map(message).collect()
    }

    fn creation(&self) -> Creation {
        let is_unnamed = self.request.destination.conversation == ConversationRef::ByHistory;
        Creation {
            conversation: mint::conversation(),
            session: mint::session(),
            kind: self.request.destination.kind,
            creator: self.request.caller.origin.creator,
            source: Arc::from(self.request.caller.origin.source),
            owner: self.request.caller.principal.key,
            reason: self.request.destination.reason.map(Arc::from),
            parent: self.request.destination.parent.clone(),
            parent_tool_call: self.request.destination.parent_tool_call.clone(),
            chat: self.request.destination.chat.filter(|_| is_unnamed),
        }
    }
}

/// The turn whose outcome answers the request, if that is known before the store is asked.
fn joined_turn(earlier: Option<&Repeated>, waiting: &Waiting<'_>) -> Option<TurnId> {
    match earlier {
        Some(Repeated::Over(turn)) => Some(*turn),
        Some(Repeated::Unanswered(..)) => None,
        // Another attempt of the turn under whose id the request waits is running.
        None => waiting.attempt_of.as_ref().map(|attempt| attempt.turn()),
    }
}

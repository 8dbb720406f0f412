//! What a front door asks for and what it gets.

use std::sync::Arc;

use herma_model::alias::Namespace;
use herma_model::{Alias, Params, Payload, Principal, ResponseId, Retries, SessionKey, SessionKind, Utterance};
use herma_store::{ClientConnection, ExpectedRevision, NewResponse, TurnPolicy};
use herma_turn::Stop;
use tokio::sync::watch;

use crate::counters::TurnCount;
use crate::log::{Subscription, TurnEvent, TurnLog};
use crate::sessions::Origin;

/// What happens when another turn is running.
pub type Policy = TurnPolicy;

/// What happens to a turn when its client goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDisconnect {
    /// It goes on.
    #[default]
    Finish,
    /// It is cancelled.
    Cancel,
}

/// How the request is recognised if it comes again.
#[derive(Debug, Clone, Default)]
pub struct RequestIdentity {
    /// The route, for people and for telling equal bodies apart.
    pub route: &'static str,
    /// Digest of the body.
    pub body: [u8; 16],
    /// The body's `user`.
    pub user: Option<String>,
    /// Which of an SDK's own retries this is.
    pub sdk_attempt: u32,
    /// The caller's `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// The connection that the request came by.
    pub client: ClientConnection,
}

impl RequestIdentity {
    /// A client that is seen to retry makes the further attempts itself.
    pub(crate) const fn upstream_retries(&self) -> Retries {
        if self.sdk_attempt > 0 { Retries::None } else { Retries::AsConfigured }
    }
}

/// One input that wants one answer, whatever protocol it came by.
///
/// [`TurnRequest::new`] is the only place that names all of its parts. A front door sets what its protocol says and
/// leaves the rest as it is.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// Who asks.
    pub caller: Caller,
    /// Where it goes.
    pub destination: Destination,
    /// What it says.
    pub input: TurnInput,
    /// How it is answered.
    pub options: TurnOptions,
    /// How it is recognised if it comes again.
    pub identity: RequestIdentity,
}

impl TurnRequest {
    /// A request that says nothing yet and is answered as a whole, by the default model. `route` is the name by which
    /// its turn is stored and found again.
    pub fn new(caller: Caller, destination: impl Into<Destination>, route: &'static str) -> Self {
        Self {
            caller,
            destination: destination.into(),
            input: TurnInput::default(),
            options: TurnOptions::default(),
            identity: RequestIdentity { route, ..RequestIdentity::default() },
        }
    }

    /// Whether its id is given out as soon as it waits.
    pub(crate) fn is_visible_while_queued(&self) -> bool {
        self.options.response.as_ref().is_some_and(|response| response.visible_while_queued)
    }
}

/// Who asks for a turn, and by which front door.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who asks.
    pub principal: Principal,
    /// The session key the request names.
    pub session_key: Option<SessionKey>,
    /// The front door.
    pub origin: Origin,
}

/// Where a turn goes.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Which conversation it is for.
    pub conversation: ConversationRef,
    /// What a conversation made for it is.
    pub kind: SessionKind,
    /// The session that a conversation made for it comes from.
    pub parent: Option<Alias>,
    /// What to do when another turn is running.
    pub policy: Policy,
    /// The revision at which its conversation has to be, if it says so.
    pub expected: Option<ExpectedRevision>,
}

impl From<ConversationRef> for Destination {
    /// A person's own conversation.
    fn from(conversation: ConversationRef) -> Self {
        Self { conversation, kind: SessionKind::Main, parent: None, policy: Policy::default(), expected: None }
    }
}

/// What a request says.
#[derive(Debug, Clone, Default)]
pub struct TurnInput {
    /// System and developer messages, if it has any. They replace those of the conversation.
    pub system: Vec<Payload>,
    /// A system message that stands in place of all others for this request alone.
    pub instructions: Option<Payload>,
    /// The messages it carries, known ones included.
    pub messages: Vec<Utterance>,
    /// Where each of them stands in the request, for error messages.
    pub indices: Vec<usize>,
    /// Whether all of them are new, whatever the conversation has.
    pub all_new: bool,
}

/// How a request is answered.
#[derive(Debug, Clone, Default)]
pub struct TurnOptions {
    /// The model it asks for.
    pub model: Option<String>,
    /// Everything else for the model server.
    pub params: Arc<Params>,
    /// From how many tokens on it wants the context compacted, if it says so.
    pub compact_at: Option<u64>,
    /// Whether the beginning of the context may be left out when all else fails.
    pub truncate: bool,
    /// Whether the answer is wanted piece by piece.
    pub streaming: bool,
    /// What to do when the client goes away.
    pub on_disconnect: OnDisconnect,
    /// What to keep of it if it is a response.
    pub response: Option<NewResponse>,
}

/// Which conversation a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationRef {
    /// A new one.
    New,
    /// None: nothing of what is said is kept.
    Stateless,
    /// The one that a name leads to.
    Named {
        /// The name.
        alias: Alias,
        /// Where it is looked up.
        namespace: Namespace,
        /// Whether an unknown name is refused rather than made.
        must_exist: bool,
    },
    /// Where a response left off: its conversation if nothing was said since, else a branch from there.
    After(ResponseId),
}

impl ConversationRef {
    /// The name that the request used, if it used one.
    pub fn name(&self) -> Option<Arc<str>> {
        match self {
            Self::New | Self::Stateless => None,
            Self::Named { alias, .. } => Some(Arc::from(alias.as_str())),
            Self::After(response) => Some(Arc::from(response.to_string())),
        }
    }
}

/// A listener's hold on a turn. Dropping it before the end means that the client went away.
#[derive(Debug)]
pub struct TurnHandle {
    events: Subscription,
    stop: watch::Sender<Option<Stop>>,
    on_disconnect: OnDisconnect,
    /// Counts the turn, if this listener asked for it.
    count: Option<Arc<TurnCount>>,
    ended: bool,
}

impl TurnHandle {
    pub(crate) fn new(log: &Arc<TurnLog>, stop: watch::Sender<Option<Stop>>, on_disconnect: OnDisconnect) -> Self {
        Self { events: log.subscribe(), stop, on_disconnect, count: None, ended: false }
    }

    /// Has the listener tell this count of the turn's end.
    pub(crate) fn counted_by(mut self, count: Arc<TurnCount>) -> Self {
        self.count = Some(count);
        self
    }

    /// The next thing that happened. After the end it is asked in vain: it never returns. Cancel-safe.
    pub async fn next(&mut self) -> TurnEvent {
        let event = self.events.next().await;
        if let Some(count) = &self.count {
            count.see(&event);
        }
        self.ended |= matches!(event, TurnEvent::Finished(_) | TurnEvent::Failed(_));
        event
    }

    /// Calls the turn off.
    pub fn cancel(&self) {
        self.stop.send_replace(Some(Stop::Cancel));
    }
}

impl Drop for TurnHandle {
    fn drop(&mut self) {
        if !self.ended && self.on_disconnect == OnDisconnect::Cancel {
            self.cancel();
        }
    }
}

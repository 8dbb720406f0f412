//! What a front door asks for and what it gets.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use herma_model::alias::Namespace;
use herma_model::{
    Alias, CallId, ChatId, HistoryDigest, HistoryTrail, Params, Payload, Principal, ResponseId, Retries, SessionKey,
    SessionKind, Utterance,
};
use herma_store::{ClientConnection, ExpectedRevision, NewResponse, TurnPolicy};
use herma_telemetry::Trace;
use herma_turn::Stop;
use herma_wire::client_tools::ClientTools;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::counters::TurnCount;
use crate::log::{Progress, Subscription, TurnEvent, TurnLog};
use crate::sessions::Origin;
use crate::tools::SessionTools;

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
    /// The route. It is stored with the turn, and tells equal bodies of different routes apart.
    pub route: &'static str,
    /// Digest of the body.
    pub body: [u8; 16],
    /// The body's `user`.
    pub user: Option<String>,
    /// Which of an SDK's own retries this is; 0 for a first try.
    pub sdk_attempt: u32,
    /// Whether the client is known to repeat failed requests, without saying which of them is a retry.
    pub repeats_failures: bool,
    /// The caller's `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// The connection that the request came by.
    pub client: ClientConnection,
}

impl RequestIdentity {
    /// Whether the client says that the request may be a repetition.
    pub(crate) const fn may_repeat(&self) -> bool {
        self.sdk_attempt > 0 || self.idempotency_key.is_some()
    }

    /// Whether model calls are retried. Not if the client is known to retry itself.
    pub(crate) const fn upstream_retries(&self) -> Retries {
        if self.sdk_attempt > 0 || self.repeats_failures { Retries::None } else { Retries::AsConfigured }
    }
}

/// One input that wants one answer, in the terms of no protocol.
///
/// [`TurnRequest::new`] sets defaults. A front door then sets what its protocol has.
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
    /// Its place in a trace.
    pub trace: Trace,
}

impl TurnRequest {
    /// A request without messages, not streamed, for the default model. `route` is the name under which its turn is
    /// stored and found again.
    pub fn new(caller: Caller, destination: impl Into<Destination>, route: &'static str) -> Self {
        Self {
            caller,
            destination: destination.into(),
            input: TurnInput::default(),
            options: TurnOptions::default(),
            identity: RequestIdentity { route, ..RequestIdentity::default() },
            trace: Trace::none(),
        }
    }

    /// The system messages that replace those of its conversation. `None` if the stored ones apply: only a request that
    /// names its conversation may leave them out. Any other brings all that its model is to see.
    pub(crate) fn new_system(&self) -> Option<&[Payload]> {
        let brings_all = self.destination.conversation == ConversationRef::ByHistory;
        (brings_all || !self.input.system.is_empty()).then_some(self.input.system.as_slice())
    }

    /// Whether the model may be shown only what the request itself has: it names neither a conversation nor a chat, so
    /// other clients may have the same history.
    pub(crate) fn shows_its_own_history_alone(&self) -> bool {
        self.destination.conversation == ConversationRef::ByHistory && self.destination.chat.is_none()
    }

    /// The trail of its history. `None` if it names a conversation, or if its history is not that of its messages.
    pub(crate) fn history_trail(&self) -> Option<HistoryTrail> {
        let is_whole = self.destination.conversation == ConversationRef::ByHistory && self.input.as_sent.is_none();
        is_whole.then(|| HistoryTrail::of(&self.input.messages))
    }

    /// Whether clients get its id while it waits.
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

/// The reason of an auxiliary session in which a client asks for a summary of its own context.
pub const CLIENT_COMPACTION: &str = "client_compaction";

/// Where a turn goes.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Which conversation it is for.
    pub conversation: ConversationRef,
    /// The kind of a conversation that is made for it.
    pub kind: SessionKind,
    /// The parent session of a conversation that is made for it.
    pub parent: Option<Alias>,
    /// The tool call of the parent that delegated it, if one did.
    pub parent_tool_call: Option<CallId>,
    /// What to do when another turn is running.
    pub policy: Policy,
    /// The revision at which its conversation has to be, if it says so.
    pub expected: Option<ExpectedRevision>,
    /// Why a conversation is made for it, if the kind does not say it.
    pub reason: Option<&'static str>,
    /// The chat of the front end that it comes under. It counts only if the request names no conversation.
    pub chat: Option<ChatId>,
}

impl From<ConversationRef> for Destination {
    /// A person's own conversation.
    fn from(conversation: ConversationRef) -> Self {
        Self {
            conversation,
            kind: SessionKind::Main,
            parent: None,
            parent_tool_call: None,
            policy: Policy::default(),
            expected: None,
            reason: None,
            chat: None,
        }
    }
}

/// What a request says.
#[derive(Debug, Clone, Default)]
pub struct TurnInput {
    /// System and developer messages. If there are any, they replace those of the conversation.
    pub system: Vec<Payload>,
    /// A system message that replaces all others, for this request only.
    pub instructions: Option<Payload>,
    /// The messages it carries, known ones included.
    pub messages: Vec<Utterance>,
    /// Where each of them stands in the request, for error messages.
    pub indices: Vec<usize>,
    /// Whether all of them are new, whatever the conversation has.
    pub all_new: bool,
    /// Answers to questions with which the last response ended: the call, and whether it may be made.
    pub approvals: Vec<(CallId, bool)>,
    /// The history of the messages as they were sent, if some were put into one.
    pub as_sent: Option<HistoryDigest>,
}

/// How a request is answered.
#[derive(Debug, Clone, Default)]
pub struct TurnOptions {
    /// The model it asks for.
    pub model: Option<String>,
    /// Everything else for the model server.
    pub params: Arc<Params>,
    /// The client's tools that the model knows by another name or in another form.
    pub client_tools: Arc<ClientTools>,
    /// The number of tokens above which it wants the context compacted, if it says so.
    pub compact_at: Option<u64>,
    /// Whether the beginning of the context may be left out if it fits in no other way.
    pub truncate: bool,
    /// Whether the answer is wanted piece by piece.
    pub streaming: bool,
    /// What to do when the client goes away.
    pub on_disconnect: OnDisconnect,
    /// What to store for the response, if the turn is one.
    pub response: Option<NewResponse>,
    /// Which of Herma's own tools the model is offered.
    pub tools: ToolOffer,
    /// The tools that its session brings. They are offered beside the operator's.
    pub session_tools: Option<Arc<SessionTools>>,
    /// Where a person can be asked whether a call may be made.
    pub approvals: AskWhere,
    /// Whether the conversation's tool mode counts. Otherwise only the operator's settings do.
    pub obeys_tool_mode: bool,
    /// How long-term memory is used.
    pub memory: MemoryUse,
}

/// How a turn under a session key uses long-term memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryUse {
    /// It recalls. What it says can be recalled later, unless it is a helper's or background work.
    #[default]
    AsUsual,
    /// It recalls nothing, and nothing of it is recalled later.
    Off,
    /// It recalls, and what it says can be recalled later.
    On,
}

/// Which of Herma's own tools a turn is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolOffer {
    /// Those that the operator configured for its caller.
    #[default]
    AsConfigured,
    /// None.
    Off,
    /// Those for a delegated turn of this depth.
    Delegated {
        /// 1 for a child of a person's turn.
        depth: u32,
    },
}

/// Where a person can be asked whether a call of Herma's own tools may be made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AskWhere {
    /// Nowhere: a call that has to be asked for is denied.
    #[default]
    Nowhere,
    /// By the turn's id. The turn waits for the answer, and no process owns it meanwhile.
    ByTurn,
    /// In the answer, about tools of these servers. The turn ends with the question, and the next request answers it.
    InAnswer(Arc<[String]>),
}

/// Which conversation a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationRef {
    /// A new one.
    New,
    /// The one that the request's messages continue. They are the whole history of its client. If there is none, a new
    /// one.
    ByHistory,
    /// None: the turn is stateless, and no message is stored.
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
    /// The one that a response belongs to, if no answer followed it. Otherwise a branch that begins after the response.
    After(ResponseId),
}

impl ConversationRef {
    /// How a request names the current conversation of its session key.
    pub const CURRENT: &str = "current";

    /// The current conversation of a session key, or its first one. The admission decides which that is, in its own
    /// transaction.
    pub fn current(session_key: &SessionKey) -> Self {
        Self::Named { alias: Alias::of_key(session_key), namespace: Namespace::Current, must_exist: false }
    }

    /// Whether it is whatever is the current conversation of a session key.
    pub const fn is_current(&self) -> bool {
        matches!(self, Self::Named { namespace: Namespace::Current, .. })
    }

    /// The name that the request used, if it used one.
    pub fn name(&self) -> Option<Arc<str>> {
        match self {
            Self::New | Self::ByHistory | Self::Stateless => None,
            Self::Named { namespace: Namespace::Current, .. } => Some(Arc::from(Self::CURRENT)),
            Self::Named { alias, .. } => Some(alias.shared()),
            Self::After(response) => Some(Arc::from(response.to_string())),
        }
    }
}

/// A listener of a turn. Dropping it before the end means that the client went away.
#[derive(Debug)]
pub struct TurnHandle {
    events: Subscription,
    stop: watch::Sender<Option<Stop>>,
    on_disconnect: OnDisconnect,
    /// Counts the turn, if this listener asked for it.
    count: Option<Arc<TurnCount>>,
    /// The turn itself, if it runs while this listener waits.
    driven: Option<DrivenTurn>,
    ended: bool,
}

/// A turn that its listener drives.
struct DrivenTurn(Pin<Box<dyn Future<Output = ()> + Send>>);

impl fmt::Debug for DrivenTurn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("DrivenTurn")
    }
}

impl TurnHandle {
    pub(crate) fn new(log: &Arc<TurnLog>, stop: watch::Sender<Option<Stop>>, on_disconnect: OnDisconnect) -> Self {
        Self { events: log.subscribe(), stop, on_disconnect, count: None, driven: None, ended: false }
    }

    /// Has the turn run while this listener waits.
    pub(crate) fn driving(mut self, turn: impl Future<Output = ()> + Send + 'static) -> Self {
        self.driven = Some(DrivenTurn(Box::pin(turn)));
        self
    }

    /// Has the listener report the turn's end to this count.
    pub(crate) fn counted_by(mut self, count: Arc<TurnCount>) -> Self {
        self.count = Some(count);
        self
    }

    /// The next event. After the final event this future never resolves. Cancel-safe.
    pub async fn next(&mut self) -> TurnEvent {
        let event = match self.drive_until(Subscription::next_ready).await {
            Some(event) => event,
            None => self.events.next().await,
        };
        self.saw(&event);
        event
    }

    /// The same, and also that a compaction has begun. Cancel-safe.
    pub async fn progress(&mut self) -> Progress {
        let progress = match self.drive_until(Subscription::progress_ready).await {
            Some(progress) => progress,
            None => self.events.progress().await,
        };
        if let Progress::Event(event) = &progress {
            self.saw(event);
        }
        progress
    }

    /// Runs the turn until there is something to tell. `None` if this listener does not drive it, or it has ended. Only
    /// the turn itself writes to its log, so the listener need not be woken for that: it looks after each poll.
    async fn drive_until<T>(&mut self, look: impl Fn(&mut Subscription) -> Option<T>) -> Option<T> {
        poll_fn(|context| {
            let Some(DrivenTurn(turn)) = &mut self.driven else { return Poll::Ready(None) };
            if turn.as_mut().poll(context).is_ready() {
                self.driven = None;
                return Poll::Ready(None);
            }
            look(&mut self.events).map_or(Poll::Pending, |found| Poll::Ready(Some(found)))
        })
        .await
    }

    /// The next event, if there is one by now.
    pub fn next_ready(&mut self) -> Option<TurnEvent> {
        let event = self.events.next_ready()?;
        self.saw(&event);
        Some(event)
    }

    fn saw(&mut self, event: &TurnEvent) {
        if let Some(count) = &self.count {
            count.see(event);
        }
        self.ended |= matches!(event, TurnEvent::Finished(_) | TurnEvent::Failed(_));
    }

    /// Cancels the turn.
    pub fn cancel(&self) {
        self.stop.send_replace(Some(Stop::Cancel));
    }
}

impl Drop for TurnHandle {
    fn drop(&mut self) {
        if !self.ended && self.on_disconnect == OnDisconnect::Cancel {
            self.cancel();
        }
        let runtime = Handle::try_current();
        if let (Some(DrivenTurn(turn)), Ok(runtime)) = (self.driven.take(), runtime) {
            runtime.spawn(turn);
        }
    }
}

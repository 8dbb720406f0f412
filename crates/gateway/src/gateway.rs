//! The gateway: everything that turns share, and how a turn enters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use herma_model::{Principal, TenantId, TurnId};
use herma_store::{Store, StoreError};
use herma_telemetry::{Span, SpanKind};
use herma_tools::Toolbox;
use herma_turn::Stop;
use herma_upstream::ModelServer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::access::{KeyTurn, KeyTurns};
use crate::admission::{Admitted, PendingAdmission, defect};
use crate::cache::HistoryCache;
use crate::compaction::Compactor;
use crate::counters::Counters;
use crate::error::{Conflict, GatewayError, Missing};
use crate::follow::{Followed, Follower};
use crate::live::{LiveTurn, LiveTurns};
use crate::log::{TurnEvent, TurnLog};
use crate::memory::handing_over::{self, Delivering};
use crate::memory::{Memories, Remembering, reader};
use crate::models::{ModelServers, OfferedModels, ResolvedModel};
use crate::readiness::Readiness;
use crate::request::{ConversationRef, TurnHandle, TurnRequest};
use crate::run::{EndTold, Run};
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::stateless::{Stateless, StatelessTurns};
use crate::titles::Titles;
use crate::tools::LentTools;
use crate::{mint, parked, retention, spans, watch as watching};

/// How long turns get to write their end after they were told to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// How many turns a request may join one after the other, if each is forgotten before it ends.
const MOST_JOINS: u32 = 10;

/// Takes turns and runs them.
pub struct Gateway {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) servers: ModelServers,
    pub(crate) offered_lists: OfferedModels,
    pub(crate) settings: Settings,
    pub(crate) cache: HistoryCache,
    pub(crate) compactor: Compactor,
    pub(crate) titles: Titles,
    pub(crate) live: Arc<LiveTurns>,
    pub(crate) stateless: StatelessTurns,
    readiness: Readiness,
    pub(crate) counters: Counters,
    /// The MCP servers.
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) lent_tools: LentTools,
    /// Who remembers.
    pub(crate) memory: Remembering,
    _delivering: Option<Delivering>,
    places: Arc<Semaphore>,
    key_turns: Arc<KeyTurns>,
    draining: AtomicBool,
}

impl Gateway {
    /// Makes a gateway and starts its background tasks. Must be called inside a Tokio runtime.
    pub fn start(store: Arc<dyn Store>, servers: ModelServers, settings: Settings) -> Arc<Self> {
        let memory = settings.memory.remembering(&store);
        let gateway = Arc::new(Self {
            cache: HistoryCache::new(settings.cache_bytes),
            compactor: Compactor::of(&servers),
            titles: Titles::of(&servers),
            offered_lists: OfferedModels::of(&servers),
            live: Arc::default(),
            stateless: StatelessTurns::default(),
            readiness: Readiness::default(),
            counters: Counters::default(),
            toolbox: Toolbox::new(settings.tools.servers.clone()),
            lent_tools: LentTools::default(),
            _delivering: handing_over::start(&memory),
            memory,
            places: Arc::new(Semaphore::new(settings.max_live_turns)),
            key_turns: Arc::default(),
            draining: AtomicBool::new(false),
            store,
            servers,
            settings,
        });
        watching::start(&gateway);
        retention::start(&gateway);
        reader::start(&gateway);
        parked::start(&gateway);
        gateway
    }

    /// The conversations that a principal can see. They are read and changed without a turn.
    pub fn sessions(&self, principal: &Principal) -> Sessions<'_> {
        Sessions::of(&*self.store, principal).preparing(&self.compactor.preparations)
    }

    /// The facts in long-term memory that a principal can see.
    pub fn memories(&self, principal: &Principal) -> Memories<'_> {
        Memories::of(&*self.store, principal)
    }

    /// A receiver that changes soon after a conversation has a new event.
    pub fn watch_events(&self) -> watch::Receiver<i64> {
        self.store.watch_events()
    }

    /// Checks whether the store can be written. Asks it at most once a second. Cancel-safe.
    pub async fn check_store(&self) -> Result<(), StoreError> {
        self.readiness.of(&*self.store).await
    }

    /// The model servers.
    pub const fn servers(&self) -> &ModelServers {
        &self.servers
    }

    /// The server of a model.
    pub(crate) fn server_of(&self, model: &ResolvedModel<'_>) -> &dyn ModelServer {
        &**self.servers.of(model.server)
    }

    /// The operator's settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The counts so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many turns run or wait in this process.
    pub fn live_turns(&self) -> usize {
        self.settings.max_live_turns - self.places.available_permits()
    }

    /// How many turns of this process wait for their conversation.
    pub fn waiting_turns(&self) -> usize {
        self.live.waiting()
    }

    /// Whether new turns are refused because the process is about to stop.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Takes a turn. It runs on a task of its own, even if no client listens.
    pub fn submit(self: &Arc<Self>, request: TurnRequest) -> Result<TurnHandle, GatewayError> {
        let (handle, turn) = self.take(request)?;
        tokio::spawn(turn);
        Ok(handle)
    }

    /// Takes a turn that runs while its listener waits for an event, and on a task of its own once the listener is
    /// dropped. That saves a task for each turn. It is for listeners that do nothing but wait: a listener that waits
    /// for its client's socket would hold up the turn.
    pub fn submit_to_listener(self: &Arc<Self>, request: TurnRequest) -> Result<TurnHandle, GatewayError> {
        let (handle, turn) = self.take(request)?;
        Ok(handle.driving(turn))
    }

    fn take(
        self: &Arc<Self>,
        request: TurnRequest,
    ) -> Result<(TurnHandle, impl Future<Output = ()> + Send + use<>), GatewayError> {
        let place = self.place()?;
        let key_turn = self.key_turns.begin(&request.caller.principal, request.identity.may_repeat())?;
        self.take_in(request, Some(place), key_turn)
    }

    /// Takes a turn that another turn has delegated. It needs no place of its own, because the other turn waits for it.
    pub(crate) fn submit_child(self: &Arc<Self>, request: TurnRequest) -> Result<TurnHandle, GatewayError> {
        let (handle, turn) = self.take_in(request, None, None)?;
        tokio::spawn(turn);
        Ok(handle)
    }

    /// A listener of the turn, and the turn itself.
    fn take_in(
        self: &Arc<Self>,
        mut request: TurnRequest,
        place: Option<OwnedSemaphorePermit>,
        mut key_turn: Option<KeyTurn>,
    ) -> Result<(TurnHandle, impl Future<Output = ()> + Send + use<>), GatewayError> {
        if self.settings.resolve_model(request.options.model.as_deref()).name.is_empty() {
            return Err(GatewayError::no_model());
        }
        if request.destination.conversation == ConversationRef::Stateless && request.destination.expected.is_some() {
            return Err(GatewayError::Conflict(Conflict::VersionMismatch));
        }
        let log = Arc::new(TurnLog::default());
        let (stop, stopped) = watch::channel(None);
        let count = self.counters.begin();
        // A request without a trace may begin one: not every front door does.
        let mut span = match request.trace.is_none() {
            true => self.settings.tracer.begin(None, SpanKind::Internal, spans::TURN),
            false => request.trace.begin(SpanKind::Internal, || spans::TURN),
        };
        request.trace = span.trace().clone();
        let handle = TurnHandle::new(&log, stop.clone(), request.options.on_disconnect).counted_by(Arc::clone(&count));
        let gateway = Arc::clone(self);
        let live = LiveTurn { log, stop };
        let turn = async move {
            let log = Arc::clone(&live.log);
            gateway.join_parallel_calls(&mut request).await;
            // On the heap: this future is moved several times before it runs.
            let driving = Box::pin(gateway.drive(&request, live, stopped, &mut span, &mut key_turn));
            let driven = std::panic::AssertUnwindSafe(driving).catch_unwind().await;
            drop((place, key_turn));
            spans::turn_ended(&mut span, log.last().as_ref());
            drop(span);
            match driven {
                Ok(Driven::ToTheEnd) => {}
                Ok(Driven::Parked { turn, attempt }) => {
                    let requested = request.destination.conversation.name();
                    let principal = &request.caller.principal;
                    Box::pin(gateway.follow_parked(principal, requested, (turn, attempt), &log)).await;
                }
                Err(_) => log.push(TurnEvent::Failed(Arc::new(GatewayError::Turn(defect())))),
            }
            if let Some(end) = log.last() {
                count.see(&end);
            }
        };
        Ok((handle, turn))
    }

    /// A place below the limit of live turns. A drain waits until it is dropped.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, GatewayError> {
        if self.is_draining() {
            return Err(GatewayError::Draining);
        }
        let limit = self.settings.max_live_turns;
        let full = |_| GatewayError::overloaded(format!("{limit} turns run or wait already, which is the limit"));
        Arc::clone(&self.places).try_acquire_owned().map_err(full)
    }

    async fn drive(
        self: &Arc<Self>,
        request: &TurnRequest,
        live: LiveTurn,
        mut stopped: watch::Receiver<Option<Stop>>,
        span: &mut Span,
        key_turn: &mut Option<KeyTurn>,
    ) -> Driven {
        let log = Arc::clone(&live.log);
        // The turn whose id this request takes over: it was forgotten, or it ended before it began.
        let mut earlier: Option<EarlierTurn> = None;
        for _ in 0..MOST_JOINS {
            let claimed = earlier.and_then(|earlier| Registered::claim(self, earlier.turn, live.clone()));
            if let (Some(EarlierTurn { turn, never_began: true }), None) = (earlier, &claimed) {
                // Another request of this process was faster.
                if self.join(request, turn, &log).await == Followed::ToTheEnd {
                    return Driven::ToTheEnd;
                }
            }
            let takes_over = claimed.is_some() && earlier.is_some_and(|earlier| earlier.never_began);
            let registered = claimed.unwrap_or_else(|| Registered::new(self, mint::turn(), live.clone()));
            let turn = registered.turn();
            if request.destination.conversation == ConversationRef::Stateless {
                spans::of_turn(span, turn, None);
                let mut stateless = Stateless { gateway: self, request, turn, key_turn, log: &log, stop: &mut stopped };
                stateless.run().await;
                return Driven::ToTheEnd;
            }
            let mut pending = PendingAdmission {
                gateway: self,
                request,
                turn,
                takes_over,
                key_turn: key_turn.as_ref(),
                registered: &registered,
                log: &log,
                stop: &mut stopped,
            };
            let mut admission = request.trace.begin(SpanKind::Internal, || spans::ADMISSION);
            let decided = pending.decide().await;
            if let Err(error) = &decided {
                spans::failed(&mut admission, error);
            }
            drop(admission);
            match decided {
                Err(error) => {
                    *key_turn = None;
                    log.push(TurnEvent::Failed(Arc::new(error)));
                    return Driven::ToTheEnd;
                }
                Ok(Admitted::NeverBegan(turn)) => earlier = Some(EarlierTurn { turn, never_began: true }),
                Ok(Admitted::Joined(turn)) => {
                    drop(registered);
                    spans::of_turn(span, turn, None);
                    span.set("herma.turn.joined", || true);
                    if let Some(key_turn) = key_turn {
                        key_turn.joined();
                    }
                    if self.join(request, turn, &log).await == Followed::ToTheEnd {
                        return Driven::ToTheEnd;
                    }
                    // Listeners may know the forgotten turn's id, so this request takes it over. If another request of
                    // this process has done that already, this one joins it under an id of its own.
                    earlier = Some(EarlierTurn { turn, never_began: false });
                    if let Some(key_turn) = key_turn {
                        key_turn.asks_again();
                    }
                }
                Ok(Admitted::Running(admitted)) => {
                    let _attempt = (admitted.running.turn != turn).then(|| registered.again(admitted.running.turn));
                    let (turn, attempt) = (admitted.running.turn, admitted.running.attempt);
                    spans::of_turn(span, turn, Some(admitted.running.facts.id));
                    let mut run = Run { gateway: self, request, log: &log, stop: &mut stopped, key_turn };
                    return match run.finish(admitted).await {
                        Some(EndTold) => Driven::ToTheEnd,
                        None => Driven::Parked { turn, attempt },
                    };
                }
            }
        }
        log.push(TurnEvent::Failed(Arc::new(GatewayError::NotFound(Missing::Turn))));
        Driven::ToTheEnd
    }

    /// Tells the listeners of a parked turn how it goes on. Any process may resume it.
    pub(crate) async fn follow_parked(
        &self,
        principal: &Principal,
        requested: Option<Arc<str>>,
        (turn, attempt): (TurnId, u32),
        log: &Arc<TurnLog>,
    ) {
        let follower = Follower { gateway: self, principal, requested, turn, log };
        if follower.follow_parked(attempt).await == Followed::Gone {
            log.push(TurnEvent::Failed(Arc::new(GatewayError::NotFound(Missing::Turn))));
        }
    }

    /// Repeats the events of the turn that a request repeats, until the turn ends or is forgotten.
    async fn join(&self, request: &TurnRequest, turn: TurnId, log: &TurnLog) -> Followed {
        let (principal, requested) = (&request.caller.principal, request.destination.conversation.name());
        Follower { gateway: self, principal, requested, turn, log }.follow().await
    }

    /// Notes that a client was sent a turn's whole answer.
    pub fn delivered(&self, tenant: TenantId, turn: TurnId) {
        if !self.stateless.delivered(turn) {
            self.store.mark_delivered(tenant, turn);
        }
    }

    /// Refuses new turns, gives running turns some time to finish, then interrupts them and closes the store.
    pub async fn drain(&self, limit: Duration) {
        self.draining.store(true, Ordering::Release);
        self.live.wake_all();
        if tokio::time::timeout(limit, self.idle()).await.is_err() {
            self.live.stop_all(Stop::Shutdown);
            let _ = tokio::time::timeout(STOP_GRACE, self.idle()).await;
        }
        self.toolbox.close().await;
        self.titles.settle(STOP_GRACE).await;
        self.store.close().await;
    }

    async fn idle(&self) {
        let all = u32::try_from(self.settings.max_live_turns).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }
}

/// How far this process brought a turn.
enum Driven {
    /// Its listeners know its end.
    ToTheEnd,
    /// It waits for a person. No process owns it.
    Parked { turn: TurnId, attempt: u32 },
}

/// An earlier turn of the same request, whose id the request takes over.
#[derive(Clone, Copy)]
struct EarlierTurn {
    turn: TurnId,
    /// True if the store still has it: it was visible while queued, and ended before it began.
    never_began: bool,
}

/// A turn's entry among the live turns. Dropping it removes the entry.
pub(crate) struct Registered<'a> {
    gateway: &'a Gateway,
    turn: TurnId,
    live: LiveTurn,
}

impl<'a> Registered<'a> {
    pub(crate) fn new(gateway: &'a Gateway, turn: TurnId, live: LiveTurn) -> Self {
        gateway.live.add(turn, live.clone());
        Self { gateway, turn, live }
    }

    /// The same. `None` if another request of this process has this id.
    fn claim(gateway: &'a Gateway, turn: TurnId, live: LiveTurn) -> Option<Self> {
        gateway.live.add_if_absent(turn, live.clone()).then(|| Self { gateway, turn, live })
    }

    /// A second entry of the same request, under the id of the unanswered turn that it repeats.
    pub(crate) fn again(&self, turn: TurnId) -> Self {
        Self::new(self.gateway, turn, self.live.clone())
    }

    pub(crate) const fn turn(&self) -> TurnId {
        self.turn
    }

    /// Removes the entry, so that another request can take the id over.
    pub(crate) fn leave(&self) {
        self.gateway.live.remove(self.turn, &self.live);
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

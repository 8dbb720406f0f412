//! The gateway: everything a turn needs, and the way in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use herma_model::{Principal, TenantId, TurnId};
use herma_store::{Store, StoreError};
use herma_turn::Stop;
use herma_upstream::ModelServer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::admission::{Admitted, PendingAdmission, defect};
use crate::cache::HistoryCache;
use crate::compaction::Compactor;
use crate::counters::Counters;
use crate::error::{Conflict, GatewayError, Missing};
use crate::follow::{Followed, Follower};
use crate::live::{LiveTurn, LiveTurns};
use crate::log::{TurnEvent, TurnLog};
use crate::readiness::Readiness;
use crate::request::{ConversationRef, TurnHandle, TurnRequest};
use crate::run::Run;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::stateless::{Stateless, StatelessTurns};
use crate::titles::Titles;
use crate::{mint, retention, watch as watching};

/// How long turns get to write their end down once they were told to stop.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How many turns a request joins one after the other, if each is forgotten before it ends.
const MOST_JOINS: u32 = 10;

/// Takes turns and runs them.
pub struct Gateway {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) upstream: Arc<dyn ModelServer>,
    pub(crate) settings: Settings,
    pub(crate) cache: HistoryCache,
    pub(crate) compactor: Compactor,
    pub(crate) titles: Titles,
    pub(crate) live: Arc<LiveTurns>,
    pub(crate) stateless: StatelessTurns,
    readiness: Readiness,
    pub(crate) counters: Counters,
    places: Arc<Semaphore>,
    draining: AtomicBool,
}

impl Gateway {
    /// Sets up a gateway, its watch over other processes, and what it does from time to time. Must be called inside a runtime.
    pub fn start(store: Arc<dyn Store>, upstream: Arc<dyn ModelServer>, settings: Settings) -> Arc<Self> {
        let gateway = Arc::new(Self {
            cache: HistoryCache::new(settings.cache_bytes),
            compactor: Compactor::default(),
            titles: Titles::default(),
            live: Arc::default(),
            stateless: StatelessTurns::default(),
            readiness: Readiness::default(),
            counters: Counters::default(),
            places: Arc::new(Semaphore::new(settings.max_live_turns)),
            draining: AtomicBool::new(false),
            store,
            upstream,
            settings,
        });
        watching::start(&gateway);
        retention::start(&gateway);
        gateway
    }

    /// The conversations that a principal can see, to be read and changed without a turn.
    pub fn sessions(&self, principal: &Principal) -> Sessions<'_> {
        Sessions::of(&*self.store, principal)
    }

    /// Changes soon after there are more events of any conversation, while a receiver is held.
    pub fn watch_events(&self) -> watch::Receiver<i64> {
        self.store.watch_events()
    }

    /// Whether the store can be written, asked at most once a second. Cancel-safe.
    pub async fn check_store(&self) -> Result<(), StoreError> {
        self.readiness.of(&*self.store).await
    }

    /// The model server behind it.
    pub fn upstream(&self) -> &Arc<dyn ModelServer> {
        &self.upstream
    }

    /// What the operator set.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What was counted so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many turns run or wait in this process.
    pub fn live_turns(&self) -> usize {
        self.settings.max_live_turns - self.places.available_permits()
    }

    /// Whether new turns are refused because the process is about to stop.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Takes a turn. It runs by itself from here on, whoever listens.
    pub fn submit(self: &Arc<Self>, request: TurnRequest) -> Result<TurnHandle, GatewayError> {
        if self.settings.resolve_model(request.options.model.as_deref()).0.is_empty() {
            return Err(GatewayError::no_model());
        }
        if request.destination.conversation == ConversationRef::Stateless && request.destination.expected.is_some() {
            return Err(GatewayError::Conflict(Conflict::VersionMismatch));
        }
        let place = self.place()?;
        let log = Arc::new(TurnLog::default());
        let (stop, stopped) = watch::channel(None);
        let count = self.counters.begin();
        let handle = TurnHandle::new(&log, stop.clone(), request.options.on_disconnect).counted_by(Arc::clone(&count));
        let gateway = Arc::clone(self);
        let live = LiveTurn { log, stop };
        tokio::spawn(async move {
            let log = Arc::clone(&live.log);
            if std::panic::AssertUnwindSafe(gateway.drive(request, live, stopped)).catch_unwind().await.is_err() {
                log.push(TurnEvent::Failed(Arc::new(GatewayError::Turn(defect()))));
            }
            if let Some(end) = log.last() {
                count.see(&end);
            }
            drop(place);
        });
        Ok(handle)
    }

    /// A place among what this process does at one time; a drain waits until it is given back.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, GatewayError> {
        if self.is_draining() {
            return Err(GatewayError::Draining);
        }
        let limit = self.settings.max_live_turns;
        let full = |_| GatewayError::Overloaded(format!("{limit} turns run or wait already, which is the limit"));
        Arc::clone(&self.places).try_acquire_owned().map_err(full)
    }

    async fn drive(self: &Arc<Self>, request: TurnRequest, live: LiveTurn, mut stopped: watch::Receiver<Option<Stop>>) {
        let log = Arc::clone(&live.log);
        // The id of a turn that this request takes over: one that was forgotten, or one that ended before it began.
        let mut earlier: Option<Earlier> = None;
        for _ in 0..MOST_JOINS {
            let claimed = earlier.and_then(|earlier| Registered::claim(self, earlier.turn, live.clone()));
            if let (Some(Earlier { turn, never_began: true }), None) = (earlier, &claimed) {
                // Another request of this process was faster.
                if self.join(&request, turn, &log).await == Followed::ToTheEnd {
                    return;
                }
            }
            let takes_over = claimed.is_some() && earlier.is_some_and(|earlier| earlier.never_began);
            let registered = claimed.unwrap_or_else(|| Registered::new(self, mint::turn(), live.clone()));
            let turn = registered.turn();
            if request.destination.conversation == ConversationRef::Stateless {
                let mut stateless = Stateless { gateway: self, request: &request, turn, log: &log, stop: &mut stopped };
                return stateless.run().await;
            }
            let mut pending = PendingAdmission {
                gateway: self,
                request: &request,
                turn,
                takes_over,
                registered: &registered,
                log: &log,
                stop: &mut stopped,
            };
            match pending.decide().await {
                Err(error) => return log.push(TurnEvent::Failed(Arc::new(error))),
                Ok(Admitted::NeverBegan(turn)) => earlier = Some(Earlier { turn, never_began: true }),
                Ok(Admitted::Joined(turn)) => {
                    drop(registered);
                    if self.join(&request, turn, &log).await == Followed::ToTheEnd {
                        return;
                    }
                    // Listeners may know the forgotten turn's id, so this request takes it over. If another request of
                    // this process has done that already, this one joins it under an id of its own.
                    earlier = Some(Earlier { turn, never_began: false });
                }
                Ok(Admitted::Running(admitted)) => {
                    let _attempt = (admitted.running.turn != turn).then(|| registered.again(admitted.running.turn));
                    let mut run = Run { gateway: self, request: &request, log: &log, stop: &mut stopped };
                    return run.finish(*admitted).await;
                }
            }
        }
        log.push(TurnEvent::Failed(Arc::new(GatewayError::NotFound(Missing::Turn))));
    }

    /// Reads the turn that a request turned out to be, to its end or until it is forgotten.
    async fn join(&self, request: &TurnRequest, turn: TurnId, log: &TurnLog) -> Followed {
        let (principal, requested) = (&request.caller.principal, request.destination.conversation.name());
        Follower { gateway: self, principal, requested, turn, log }.follow().await
    }

    /// Notes that a turn's answer was written to its end.
    pub fn delivered(&self, tenant: TenantId, turn: TurnId) {
        if !self.stateless.delivered(turn) {
            self.store.mark_delivered(tenant, turn);
        }
    }

    /// Refuses new turns, lets those that run finish for a while, then interrupts them.
    pub async fn drain(&self, limit: Duration) {
        self.draining.store(true, Ordering::Release);
        self.live.wake_all();
        if tokio::time::timeout(limit, self.idle()).await.is_err() {
            self.live.stop_all(Stop::Shutdown);
            let _ = tokio::time::timeout(LAST_WORDS, self.idle()).await;
        }
        self.titles.settle(LAST_WORDS).await;
        self.store.close().await;
    }

    async fn idle(&self) {
        let all = u32::try_from(self.settings.max_live_turns).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }
}

/// An earlier turn of the same request, whose id the request takes over.
#[derive(Clone, Copy)]
struct Earlier {
    turn: TurnId,
    /// Whether the store still has it: it was promised, and ended before it began.
    never_began: bool,
}

/// A turn's entry among the live ones, for as long as it lives.
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

    /// The same, or `None` if another request of this process has this id.
    fn claim(gateway: &'a Gateway, turn: TurnId, live: LiveTurn) -> Option<Self> {
        gateway.live.add_if_absent(turn, live.clone()).then(|| Self { gateway, turn, live })
    }

    /// The same turn under the id of the unanswered one it turned out to be.
    pub(crate) fn again(&self, turn: TurnId) -> Self {
        Self::new(self.gateway, turn, self.live.clone())
    }

    pub(crate) const fn turn(&self) -> TurnId {
        self.turn
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.gateway.live.remove(self.turn);
    }
}

//! The life of one server: idle, starting, ready, failed, closed.
//!
//! One task owns a started server from its start to its end. It alone leaves `Starting` and `Ready`; `Closed` is final
//! and may be entered at any time. Never lock `phase` while holding `starts`.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use herma_model::TraceContext;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::mcp::{Caller, Link};
use crate::offer;
use crate::secrets::Secrets;
use crate::settings::ServerSettings;
use crate::starts::Starts;
use crate::tool::{CallEnd, Tool};

/// How long the end of a server is waited for before it is cut off.
const END_LIMIT: Duration = Duration::from_secs(4);

/// Where a server is in its life.
#[derive(Clone)]
pub(crate) enum Phase {
    Idle,
    Starting { turns_wait_until: Instant },
    Ready(Arc<Ready>),
    Failed { reason: Arc<str>, retry_at: Instant },
    Closed,
}

/// A server that answers.
pub(crate) struct Ready {
    caller: Caller,
    pub(crate) tools: Vec<Arc<Tool>>,
}

/// One configured server.
pub(crate) struct Server {
    pub(crate) settings: ServerSettings,
    pub(crate) label: Arc<str>,
    label_is_hashed: bool,
    secrets: Secrets,
    /// Whether it has to be asked in the older way.
    is_older: AtomicBool,
    phase: watch::Sender<Phase>,
    starts: Mutex<Account>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What is remembered from one start to the next.
#[derive(Default)]
struct Account {
    starts: Starts,
    /// Why it ended last.
    last_end: String,
    /// The tools that it had last.
    known: Vec<Arc<Tool>>,
}

impl Server {
    pub(crate) fn new(settings: ServerSettings, label_is_hashed: bool) -> Arc<Self> {
        Arc::new(Self {
            label: Arc::from(settings.label.as_str()),
            label_is_hashed,
            secrets: Secrets::of(&settings.transport),
            settings,
            is_older: AtomicBool::new(false),
            phase: watch::Sender::new(Phase::Idle),
            starts: Mutex::default(),
            task: Mutex::default(),
        })
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    /// The tools of the server, or those that it had before it ended. A call of one of them starts it again.
    pub(crate) fn known_tools(&self) -> Vec<Arc<Tool>> {
        match &*self.phase.borrow() {
            Phase::Ready(ready) => ready.tools.clone(),
            Phase::Closed => Vec::new(),
            _ => self.account(|account| account.known.clone()),
        }
    }

    /// Starts the server if it does not run and may be started now. Returns at once.
    pub(crate) fn ensure_started(self: &Arc<Self>) -> Phase {
        let now = Instant::now();
        let mut begun = false;
        self.phase.send_if_modified(|phase| {
            let due = match phase {
                Phase::Idle => true,
                Phase::Failed { retry_at, .. } => *retry_at <= now,
                _ => false,
            };
            if due {
                *phase = self.account(|account| match account.starts.begin(now) {
                    Ok(()) => Phase::Starting { turns_wait_until: now + self.settings.turns_wait },
                    Err(retry_at) => Phase::Failed { reason: Arc::from(self.too_often(&account.last_end)), retry_at },
                });
                begun = matches!(phase, Phase::Starting { .. });
            }
            due
        });
        if begun {
            let task = tokio::spawn(self.clone().live());
            *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        }
        self.phase()
    }

    /// Waits while the server is starting, at most until turns stop waiting for this start. Cancel-safe.
    pub(crate) async fn settled(&self) {
        let Phase::Starting { turns_wait_until } = self.phase() else { return };
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|phase| !matches!(phase, Phase::Starting { .. }));
        drop(timeout_at(turns_wait_until, settled).await);
    }

    /// Calls a tool by the server's name for it, starting the server if necessary.
    ///
    /// Dropping the future tells the server to stop. Bounded by the server's timeout.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: &str,
        arguments: serde_json::Map<String, serde_json::Value>,
        trace: Option<&TraceContext>,
    ) -> CallEnd {
        let deadline = Instant::now() + self.settings.timeout;
        let ready = match self.ready_until(deadline).await {
            Ok(ready) => ready,
            Err(reason) => return CallEnd::NotMade(reason),
        };
        if !ready.tools.iter().any(|known| &*known.tool == tool) {
            return CallEnd::NotMade(format!("The MCP server `{}` has no tool `{tool}` any more.", self.label));
        }
        match timeout_at(deadline, ready.caller.call(tool, arguments, trace)).await {
            Ok(end) => end,
            Err(_) => {
                let seconds = self.settings.timeout.as_secs_f32();
                CallEnd::Uncertain(format!("`{}` did not answer within {seconds} s and was told to stop.", self.label))
            }
        }
    }

    async fn ready_until(self: &Arc<Self>, deadline: Instant) -> Result<Arc<Ready>, String> {
        let mut changes = self.phase.subscribe();
        loop {
            match self.ensure_started() {
                Phase::Ready(ready) if !ready.caller.is_closed() => return Ok(ready),
                Phase::Failed { reason, .. } => return Err(reason.to_string()),
                Phase::Closed => return Err("Herma is stopping.".to_owned()),
                Phase::Idle | Phase::Starting { .. } | Phase::Ready(_) => {}
            }
            if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                return Err(format!("The MCP server `{}` is still starting.", self.label));
            }
        }
    }

    /// Marks the server as closed. Its task ends it.
    pub(crate) fn stop(&self) {
        self.phase.send_replace(Phase::Closed);
    }

    /// Waits for the end of the server's task and cuts it off if it takes too long. To be called after [`Self::stop`].
    pub(crate) async fn stopped(&self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut task) = task
            && timeout(END_LIMIT, &mut task).await.is_err()
        {
            task.abort();
            drop(task.await);
        }
    }

    /// The task of a started server.
    async fn live(self: Arc<Self>) {
        let started = tokio::select! {
            () = self.closed() => return,
            started = Link::open(&self.settings, &self.secrets, self.settings.start_limit, &self.is_older) => started,
        };
        let (mut link, listed) = match started {
            Ok(started) => started,
            Err(reason) => return self.fail(&reason),
        };
        self.account(|account| account.starts.succeeded());
        self.show(&link, &listed);
        let reason = loop {
            let changes = link.changes();
            tokio::select! {
                () = self.closed() => break None,
                reason = link.ended() => break Some(reason),
                () = changes.notified() => {}
            }
            let caller = link.caller();
            let listed = tokio::select! {
                () = self.closed() => break None,
                listed = timeout(self.settings.start_limit, caller.list()) => listed,
            };
            match listed {
                Ok(Ok(listed)) => self.show(&link, &listed),
                Ok(Err(reason)) => tracing::debug!(server = %self.label, "its changed tools were not listed: {reason}"),
                Err(_) => tracing::debug!(server = %self.label, "its changed tools were not listed in time"),
            }
        };
        if reason.is_some() && !link.is_child() {
            tokio::spawn(self.clone().close_when_idle(link));
        } else {
            link.close().await;
        }
        if let Some(reason) = reason {
            let reason = self.secrets.scrub(&reason);
            tracing::info!(server = %self.label, "an MCP server ended: {reason}");
            self.account(|account| account.last_end = reason);
            self.become_unless_closed(Phase::Idle);
        }
    }

    /// Lets the calls of a lost connection end by themselves while a new connection may already be in use.
    async fn close_when_idle(self: Arc<Self>, link: Link) {
        let caller = link.caller();
        tokio::select! {
            () = self.closed() => {}
            _ = timeout(self.settings.timeout, caller.idle()) => {}
        }
        link.close().await;
    }

    fn show(&self, link: &Link, listed: &[offer::ListedTool]) {
        let tools = offer::tools(&self.settings, self.label_is_hashed, listed);
        self.account(|account| account.known.clone_from(&tools));
        self.become_unless_closed(Phase::Ready(Arc::new(Ready { caller: link.caller(), tools })));
    }

    fn fail(&self, reason: &str) {
        let reason = self.secrets.scrub(reason);
        tracing::warn!(server = %self.label, "an MCP server could not be started: {reason}");
        let retry_at = self.account(|account| {
            account.last_end.clone_from(&reason);
            account.starts.failed(Instant::now())
        });
        self.become_unless_closed(Phase::Failed { reason: Arc::from(reason), retry_at });
    }

    fn too_often(&self, last_end: &str) -> String {
        let label = &self.label;
        format!(
            "The MCP server `{label}` was started too often; it is tried again in a minute. The last time: {last_end}"
        )
    }

    fn become_unless_closed(&self, next: Phase) {
        self.phase.send_if_modified(|phase| {
            let open = !matches!(phase, Phase::Closed);
            if open {
                *phase = next;
            }
            open
        });
    }

    async fn closed(&self) {
        // Fails only if the sender is gone, which `self` holds.
        drop(self.phase.subscribe().wait_for(|phase| matches!(phase, Phase::Closed)).await);
    }

    fn account<T>(&self, use_it: impl FnOnce(&mut Account) -> T) -> T {
        use_it(&mut self.starts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

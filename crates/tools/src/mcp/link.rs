//! A connection to a server, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Fuse, FusedFuture};
use herma_model::TraceContext;
use rmcp::model::{CallToolRequestParams, MetaObject, ProtocolVersion, RequestMetaObject};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RunningService, RunningServiceCancellationToken,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleClient, ServiceError};
use serde_json::{Map, Value};
use tokio::sync::{Notify, RwLock};
use tokio::time::{Instant, timeout};

use super::failure::{self, StartFailure};
use super::handler::Handler;
use super::list;
use super::notes::Notes;
use super::process::Process;
use super::subscription::Subscription;
use super::{LARGEST_MESSAGE, http, result};
use crate::offer::ListedTool;
use crate::secrets::Secrets;
use crate::settings::{ServerSettings, Transport};
use crate::tool::CallEnd;

/// How long the messages of a process that ended are still read, and how long a session is being closed.
const DRAIN: Duration = Duration::from_secs(1);

/// A connection whose server has listed its tools. Dropping it kills a child process at once.
pub(crate) struct Link {
    caller: Caller,
    changes: Arc<Notify>,
    service: Fuse<BoxFuture<'static, ()>>,
    stop: Option<RunningServiceCancellationToken>,
    process: Option<Process>,
    _subscription: Option<Subscription>,
}

impl Link {
    /// Starts or reaches a server and lists its tools. An error is a sentence that says what to do.
    ///
    /// Some older servers end when they are asked for the newest revision. A process that ends during the handshake is
    /// started once more and asked in the older way; `is_older` remembers that this worked. Dropping the future ends
    /// the server.
    pub(crate) async fn open(
        settings: &ServerSettings,
        secrets: &Secrets,
        limit: Duration,
        is_older: &AtomicBool,
    ) -> Result<(Self, Vec<ListedTool>), String> {
        let deadline = Instant::now() + limit;
        if is_older.load(Ordering::Relaxed) {
            return Self::attempt(settings, secrets, deadline, older_only()).await.map_err(|refused| refused.reason);
        }
        match Self::attempt(settings, secrets, deadline, newest_first()).await {
            Err(Refused { may_be_older: true, .. }) => {}
            opened => return opened.map_err(|refused| refused.reason),
        }
        let opened = Self::attempt(settings, secrets, deadline, older_only()).await;
        is_older.store(opened.is_ok(), Ordering::Relaxed);
        opened.map_err(|refused| refused.reason)
    }

    async fn attempt(
        settings: &ServerSettings,
        secrets: &Secrets,
        deadline: Instant,
        lifecycle: ClientLifecycleMode,
    ) -> Result<(Self, Vec<ListedTool>), Refused> {
        let limit = deadline.saturating_duration_since(Instant::now());
        let changes = Arc::new(Notify::new());
        let handler = Handler { changes: changes.clone() };
        let mut process = None;
        let opened = match &settings.transport {
            Transport::Command { command, args, env } => {
                let (child, pipes) =
                    Process::start(&settings.label, command, args, env, settings.directory.as_deref(), secrets)
                        .map_err(Refused::for_good)?;
                process = Some(child);
                let transport = AsyncRwTransport::new_client(pipes.messages, pipes.stdin);
                // One byte more than what is passed on, so that the library never has to drop a message.
                let transport = transport.with_max_line_length(LARGEST_MESSAGE + 1);
                timeout(limit, listed(handler.serve_with_lifecycle(transport, lifecycle))).await
            }
            Transport::Http { url, headers } => {
                let transport =
                    http::transport(&settings.label, url, headers, changes.clone()).await.map_err(Refused::for_good)?;
                timeout(limit, listed(handler.serve_with_lifecycle(transport, lifecycle))).await
            }
        };
        let (running, tools) = match opened.unwrap_or(Err(StartFailure::TooSlow(limit))) {
            Ok(opened) => opened,
            Err(why) => {
                let is_silent = process.as_ref().is_some_and(|process| process.notes().stray_line().is_none());
                let may_be_older = is_silent && matches!(why, StartFailure::Handshake(_));
                let reason = failure::of_start(settings, &why, process.as_mut()).await;
                return Err(Refused { reason, may_be_older });
            }
        };
        let peer = running.peer().clone();
        let caller = Caller {
            label: Arc::from(settings.label.as_str()),
            secrets: secrets.clone(),
            notes: process.as_ref().map(Process::notes),
            shared: Arc::default(),
            peer: peer.clone(),
        };
        let subscription = Subscription::open(peer, changes.clone());
        let stop = Some(running.cancellation_token());
        let service = running.waiting().map(drop).boxed().fuse();
        Ok((Self { caller, changes, service, stop, process, _subscription: subscription }, tools))
    }

    /// What calls the server's tools.
    pub(crate) fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// Notified when the list of tools may have changed.
    pub(crate) fn changes(&self) -> Arc<Notify> {
        self.changes.clone()
    }

    /// Waits until the server has ended or cannot be used any more, and says why. Cancel-safe.
    pub(crate) async fn ended(&mut self) -> String {
        let shared = self.caller.shared.clone();
        let exited = async {
            match &mut self.process {
                Some(process) => process.exited().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut self.service => {}
            _ = exited => drop(timeout(DRAIN, &mut self.service).await),
            () = shared.lost.notified() => {}
        }
        match &mut self.process {
            Some(process) => failure::of_process(process).await,
            None => "The connection was lost.".to_owned(),
        }
    }

    /// Whether the server is a child process, whose calls all end with it.
    pub(crate) fn is_child(&self) -> bool {
        self.process.is_some()
    }

    /// Closes the connection and ends a child process with all that it started.
    pub(crate) async fn close(mut self) {
        if let Some(stop) = self.stop.take() {
            stop.cancel();
        }
        if !self.service.is_terminated() {
            drop(timeout(DRAIN, &mut self.service).await);
        }
        if let Some(process) = self.process.take() {
            process.end().await;
        }
    }
}

/// How MCP tells a server of a trace.
fn meta_of(trace: &TraceContext) -> RequestMetaObject {
    let state = trace.state.as_ref().map(ToString::to_string);
    let pairs = [("traceparent", Some(trace.to_parent())), ("tracestate", state)];
    let pairs = pairs.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Value::String(text?))));
    RequestMetaObject(MetaObject(pairs.collect()))
}

/// Calls the tools of one connection.
#[derive(Clone)]
pub(crate) struct Caller {
    label: Arc<str>,
    secrets: Secrets,
    notes: Option<Arc<Notes>>,
    shared: Arc<Shared>,
    peer: Peer<RoleClient>,
}

/// What all callers of one connection know.
#[derive(Default)]
struct Shared {
    /// Set, and then notified, when the connection turns out to be unusable for further calls.
    is_lost: AtomicBool,
    lost: Notify,
    /// Read while a call is under way.
    calls: RwLock<()>,
}

impl Caller {
    /// Whether a call would certainly not reach the server.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.is_lost.load(Ordering::Relaxed) || self.peer.is_transport_closed()
    }

    /// Waits until no call is under way. Cancel-safe.
    pub(crate) async fn idle(&self) {
        drop(self.shared.calls.write().await);
    }

    /// Lists the server's tools.
    pub(crate) async fn list(&self) -> Result<Vec<ListedTool>, String> {
        list::tools(&self.peer).await.map_err(|error| error.to_string())
    }

    /// Calls a tool and waits for its end. Dropping the future tells the server to stop.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        trace: Option<&TraceContext>,
    ) -> CallEnd {
        let _under_way = self.shared.calls.read().await;
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        params.meta = trace.map(meta_of);
        let error = match self.peer.call_tool_once(params).await {
            Ok(response) => return result::of_call(response),
            Err(error) => error,
        };
        let closed = matches!(error, ServiceError::TransportClosed);
        let failure = failure::of_call(&self.label, error);
        if failure.lost {
            self.shared.is_lost.store(true, Ordering::Relaxed);
            self.shared.lost.notify_one();
        }
        let last_line = match &self.notes {
            Some(notes) if closed => notes.last_line().await,
            _ => None,
        };
        let words = |text: String| self.secrets.scrub(&failure::with_last_line(text, last_line.as_deref()));
        match failure.end {
            CallEnd::NotMade(text) => CallEnd::NotMade(words(text)),
            CallEnd::Uncertain(text) => CallEnd::Uncertain(words(text)),
            end @ CallEnd::Result { .. } => end,
        }
    }
}

/// The newest revision first; older ones by the handshake that they have.
fn newest_first() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: ProtocolVersion::KNOWN_VERSIONS.iter().rev().cloned().collect(),
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// The handshake of older revisions only.
fn older_only() -> ClientLifecycleMode {
    ClientLifecycleMode::Initialize
}

/// Why a server is not ready.
struct Refused {
    reason: String,
    /// Whether it may be a server that does not survive being asked for the newest revision.
    may_be_older: bool,
}

impl Refused {
    fn for_good(reason: String) -> Self {
        Self { reason, may_be_older: false }
    }
}

type Running = RunningService<RoleClient, Handler>;

async fn listed(
    serving: impl Future<Output = Result<Running, ClientInitializeError>>,
) -> Result<(Running, Vec<ListedTool>), StartFailure> {
    let running = serving.await.map_err(|error| StartFailure::Handshake(Box::new(error)))?;
    let tools = list::tools(running.peer()).await.map_err(StartFailure::List)?;
    Ok((running, tools))
}

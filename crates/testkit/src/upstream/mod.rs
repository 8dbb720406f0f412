//! A chat-completions server on a loopback port that answers from a script.
//!
//! Every request is recorded before its answer begins. Requests get the replies of the script in the order of their
//! arrival. If the script is empty, the default reply echoes the last user message. The server runs on the runtime
//! that started it and stops when it is dropped.

mod plan;
mod recorded;
mod reply;
mod serve;
mod wire;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use recorded::Recorded;
pub use reply::{Completion, Ending, Pace, Reply, ToolCall};

use crate::PATIENCE;

type Fallback = Box<dyn Fn(&Recorded) -> Reply + Send>;

/// The running server.
#[derive(Debug)]
pub struct ScriptedUpstream {
    address: SocketAddr,
    script: Arc<Script>,
    server: JoinHandle<()>,
}

impl ScriptedUpstream {
    /// Listens on a free loopback port.
    pub async fn start() -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Listens on a given address, to restart a server at its old address.
    pub async fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.expect("a loopback port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let script = Arc::new(Script::default());
        let server = tokio::spawn(serve::accept(listener, Arc::clone(&script)));
        Self { address, script, server }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for clients: `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Adds a reply to the end of the script.
    pub fn push(&self, reply: Reply) {
        self.script.lock().replies.push_back(reply);
    }

    /// Sets the reply for requests when the script is empty.
    pub fn otherwise(&self, fallback: impl Fn(&Recorded) -> Reply + Send + 'static) {
        self.script.lock().fallback = Some(Box::new(fallback));
    }

    /// Every chat request so far, in the order of arrival.
    pub fn requests(&self) -> Vec<Recorded> {
        self.script.lock().requests.clone()
    }

    /// The newest chat request.
    pub fn last_request(&self) -> Recorded {
        self.script.lock().requests.last().cloned().expect("the upstream was called")
    }

    /// Sets the models that it lists. Without this it lists `scripted`.
    pub fn offer(&self, models: &[&str]) {
        self.script.lock().models = Some(models.iter().map(|id| (*id).to_owned()).collect());
    }

    /// Every request for its models so far.
    pub fn list_requests(&self) -> Vec<Recorded> {
        self.script.lock().list_requests.clone()
    }

    /// How many scripted replies are left.
    pub fn replies_left(&self) -> usize {
        self.script.lock().replies.len()
    }

    /// Waits until `count` chat requests have arrived. Cancel-safe.
    pub async fn until_requests(&self, count: usize) -> Vec<Recorded> {
        let mut arrived = self.script.arrived.subscribe();
        let waited = tokio::time::timeout(PATIENCE, arrived.wait_for(|now| *now >= count)).await;
        assert!(waited.is_ok(), "expected {count} requests, {} arrived", *self.script.arrived.borrow());
        self.requests()
    }

    /// Waits until exactly `count` answers are open, that is, being written or waiting. An answer is closed when it
    /// has ended or its client has disconnected. Cancel-safe.
    pub async fn until_open(&self, count: usize) {
        let mut open = self.script.open.subscribe();
        let waited = tokio::time::timeout(PATIENCE, open.wait_for(|now| *now == count)).await;
        assert!(waited.is_ok(), "expected {count} open answers, found {}", *self.script.open.borrow());
    }

    /// Stops at once. Cuts open answers off. Later connections are refused.
    pub async fn stop(mut self) {
        self.server.abort();
        let _ended = (&mut self.server).await;
    }
}

impl Drop for ScriptedUpstream {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The state that the server shares with its handle.
#[derive(Default)]
struct Script {
    state: Mutex<State>,
    arrived: watch::Sender<usize>,
    open: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    replies: VecDeque<Reply>,
    fallback: Option<Fallback>,
    requests: Vec<Recorded>,
    models: Option<Vec<String>>,
    list_requests: Vec<Recorded>,
}

impl Script {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while the script is held")
    }

    /// Records a request. Returns its number, counted from 1, and the reply.
    fn take(&self, request: &Recorded) -> (usize, Reply) {
        let taken = {
            let mut state = self.lock();
            state.requests.push(request.clone());
            let reply = match (state.replies.pop_front(), &state.fallback) {
                (Some(reply), _) => reply,
                (None, Some(fallback)) => fallback(request),
                (None, None) => Reply::Echo,
            };
            (state.requests.len(), reply)
        };
        self.arrived.send_modify(|now| *now += 1);
        taken
    }

    /// Records a request for the models. Returns their ids.
    fn listed(&self, request: Recorded) -> Vec<String> {
        let mut state = self.lock();
        state.list_requests.push(request);
        state.models.clone().unwrap_or_else(|| vec!["scripted".to_owned()])
    }

    /// Counts an answer as open until the guard is dropped.
    fn open(self: &Arc<Self>) -> OpenAnswer {
        self.open.send_modify(|now| *now += 1);
        OpenAnswer(Arc::clone(self))
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script").field("arrived", &*self.arrived.borrow()).finish_non_exhaustive()
    }
}

/// One answer that has not ended.
#[derive(Debug)]
struct OpenAnswer(Arc<Script>);

impl Drop for OpenAnswer {
    fn drop(&mut self) {
        self.0.open.send_modify(|now| *now -= 1);
    }
}

//! A Honcho server in memory, for tests: it answers as version 3 of the API does, or badly on purpose.
//!
//! Like the real one it gives messages ids of its own, takes a repeated message twice, and answers in pages. It accepts
//! the deletion of a session or a workspace at once. A worker carries it out later, and until then both are listed.

mod api;
mod serve;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::api::Contents;
use crate::PATIENCE;

/// How often the worker looks for deletions. The real one does so every 1 to 45 seconds.
const WORKER: Duration = Duration::from_millis(200);

/// How the server behaves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Mood {
    /// As its API says.
    #[default]
    Right,
    /// It answers each request with this status.
    Status(u16),
    /// It answers with 429, and wants clients to wait this many seconds.
    RateLimited(u64),
    /// It stores messages, but answers with status 500 then. All else is right.
    LosesAnswers,
    /// It never answers.
    Hanging,
    /// It closes the connection.
    CutOff,
    /// It answers with text that is no JSON.
    Garbage,
    /// It answers with JSON of another form.
    WrongJson,
    /// It answers with 16 MiB.
    Huge,
    /// Its searches answer with the messages of everybody.
    Indiscreet,
}

/// A request as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct HonchoRequest {
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query.
    pub query: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// The body; `Null` without one.
    pub body: Value,
}

/// A message that the server has.
#[derive(Debug, Clone, PartialEq)]
pub struct HonchoMessage {
    /// Its workspace.
    pub workspace: String,
    /// Its session.
    pub session: String,
    /// The peer that said it.
    pub peer: String,
    /// What was said.
    pub content: String,
    /// What came with it.
    pub metadata: Value,
    /// When it was said.
    pub created_at: String,
}

/// Something that the server has concluded about a peer.
#[derive(Debug, Clone, PartialEq)]
pub struct HonchoConclusion {
    /// Its workspace.
    pub workspace: String,
    /// Its id.
    pub id: String,
    /// The peer that it is about.
    pub observed: String,
    /// The session that it comes from. `None` if it comes from several.
    pub session: Option<String>,
}

/// The running server.
#[derive(Debug)]
pub struct FakeHoncho {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
    worker: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    contents: Mutex<Contents>,
    arrived: watch::Sender<usize>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FakeHoncho {
    /// Listens on a free loopback port.
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), shared).await
    }

    async fn listen(address: SocketAddr, shared: Arc<Shared>) -> Self {
        let listener = TcpListener::bind(address).await.expect("a loopback port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let server = tokio::spawn(serve::accept(listener, Arc::clone(&shared)));
        let worker = tokio::spawn(work(Arc::clone(&shared)));
        Self { address, shared, server, worker }
    }

    /// Its address.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets how it behaves from now on.
    pub fn be(&self, mood: Mood) {
        self.shared.lock().mood = mood;
    }

    /// Stops the worker, so that deletions are only accepted, or starts it again.
    pub fn delete_later(&self, later: bool) {
        self.shared.lock().deletes_later = later;
    }

    /// Deletes what it has accepted to delete.
    pub fn carry_out_deletions(&self) {
        self.shared.lock().carry_out_deletions();
    }

    /// Adds conclusions.
    pub fn note(&self, conclusions: impl IntoIterator<Item = HonchoConclusion>) {
        self.shared.lock().noted.extend(conclusions);
    }

    /// The conclusions that were added and not deleted.
    pub fn noted(&self) -> Vec<HonchoConclusion> {
        self.shared.lock().noted.clone()
    }

    /// Sets what it has concluded about every peer whose messages have this word.
    pub fn conclude(&self, word: &str, conclusion: &str) {
        self.shared.lock().conclusions.push((word.to_owned(), conclusion.to_owned()));
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<HonchoRequest> {
        self.shared.lock().requests.clone()
    }

    /// All messages that it has, in the order in which they came.
    pub fn messages(&self) -> Vec<HonchoMessage> {
        self.shared.lock().messages.clone()
    }

    /// Waits until it has this many messages. Cancel-safe.
    pub async fn until_messages(&self, count: usize) -> Vec<HonchoMessage> {
        self.until(&format!("{count} messages"), |contents| contents.messages.len() >= count).await;
        self.messages()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Contents) -> bool) {
        let mut arrived = self.shared.arrived.subscribe();
        let waited = tokio::time::timeout(PATIENCE, async {
            while !holds(&self.shared.lock()) {
                if arrived.changed().await.is_err() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        })
        .await;
        let contents = self.shared.lock();
        let state = (contents.messages.len(), contents.requests.len());
        assert!(waited.is_ok(), "expected {what}; messages and requests: {state:?}");
    }

    /// Stops to listen and closes all connections. It can start again at the same address, with what it has.
    pub async fn stop(mut self) -> StoppedHoncho {
        self.server.abort();
        self.worker.abort();
        let _ended = (&mut self.server).await;
        StoppedHoncho { address: self.address, shared: Arc::clone(&self.shared) }
    }
}

impl Drop for FakeHoncho {
    fn drop(&mut self) {
        self.server.abort();
        self.worker.abort();
    }
}

/// Carries deletions out, behind the requests.
async fn work(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(WORKER).await;
        let mut contents = shared.lock();
        if !contents.deletes_later {
            contents.carry_out_deletions();
        }
    }
}

/// A server that does not listen.
#[derive(Debug)]
pub struct StoppedHoncho {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl StoppedHoncho {
    /// Listens again.
    pub async fn start(self) -> FakeHoncho {
        FakeHoncho::listen(self.address, self.shared).await
    }
}

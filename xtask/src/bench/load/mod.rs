//! The load: each client has its own connection and its own sessions, and sends one turn after the other.

mod kind;
pub(super) mod questions;
mod requests;
mod talk;
mod whole_history;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::http1::{Connection, Message, unframed};
use super::servers::upstream::{AT_ONCE, CALL, PAUSE};
use super::testbed::{Server, Target, Testbed};
use requests::Session;

pub(super) use kind::Kind;
pub(super) use requests::{MEMORY_KEY, USER_TEXT, ask, compact, fetch, get, send, show};
pub(super) use talk::Talk;

/// The API key that Herma is started with.
pub(super) const KEY: &str = "bench-key";

/// How long a round waits after its sessions were opened. A gateway may still be working on them: Herma writes its search
/// index about a second behind. That is not a cost of the turns that are measured.
const SETTLED_AFTER: Duration = Duration::from_millis(1300);

/// Everything that takes longer than this is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts session names, so that no name is used twice in a run.
static SESSIONS: AtomicUsize = AtomicUsize::new(0);

/// The parameters of a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Clients at the same time.
    pub(super) clients: usize,
    /// Turns of all clients together, on a server that stores them.
    pub(super) turns: usize,
    /// Messages in a session's history before its first measured turn.
    pub(super) history: usize,
    /// The form of the answers.
    pub(super) shape: Shape,
    /// The API that turns are sent to.
    pub(super) api: Api,
}

impl Plan {
    /// Turns of all clients together. Faster servers get more, so that each round is long enough to be measured.
    const fn turns_of(&self, target: Target) -> usize {
        match (self.shape, target) {
            (Shape::Streamed(_), _) | (_, Target::Floor | Target::Herma | Target::Before) => self.turns,
            (_, Target::Proxy) => self.turns * 3,
            (_, Target::Direct) => self.turns * 6,
        }
    }

    /// Turns of one session before its client takes the next session, so that histories keep about the same length.
    const fn turns_per_session(&self) -> usize {
        if self.history < 100 { 4 } else { 32 }
    }
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Whole,
    /// Whole, after the model has called a tool of Herma's.
    Calling,
    /// As a stream.
    Streamed(Pace),
}

/// When the tokens of a stream come from the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// A few tokens, each in a write of its own.
    Usual,
    /// The same, after a pause.
    Paused,
    /// Two hundred tokens in one write.
    AtOnce,
}

impl Shape {
    /// The field of a request that asks for a stream.
    const fn stream_field(self) -> &'static str {
        match self {
            Self::Whole | Self::Calling => "",
            Self::Streamed(_) => r#""stream":true,"#,
        }
    }

    /// The word in the user's text that tells the upstream how to answer.
    const fn mark(self) -> &'static str {
        match self {
            Self::Whole | Self::Streamed(Pace::Usual) => "",
            Self::Calling => CALL,
            Self::Streamed(Pace::Paused) => PAUSE,
            Self::Streamed(Pace::AtOnce) => AT_ONCE,
        }
    }
}

/// The API of a turn, and how the turn names its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    /// `/v1/chat/completions`, with a session header. The floor has this too.
    Chat,
    /// `/v1/responses`, with the conversation's slug.
    Slug,
    /// `/v1/responses`, with the id of the previous response.
    Chained,
    /// `/v1/chat/completions`, with a session header and the whole history in every turn.
    Whole,
    /// As `Chat`, under one session key for all clients, with memory.
    Recall,
    /// As `Recall`, and each turn asks another question.
    RecallVaried,
    /// As `Recall`, with memory switched off for each turn.
    RecallOff,
    /// The same bodies without a session header. The history finds the conversation.
    Unnamed,
    /// `/v1/chat/completions`, with a session header that all clients of a round share. The floor has this too.
    Shared,
    /// `/v1/chat/completions` without a session header. Each turn is the first of a conversation; the plan's history
    /// does not count. The floor has this too.
    First,
}

impl Api {
    /// Those that name a conversation and send only what is new, in the order of the report.
    pub(super) const NAMED: [Self; 3] = [Self::Chat, Self::Slug, Self::Chained];

    /// Its name in the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Slug => "slug",
            Self::Chained => "chained",
            Self::Recall => "recall",
            Self::RecallVaried => "varied recall",
            Self::RecallOff => "memory off",
            Self::Whole => "by header",
            Self::Unnamed => "unnamed",
            Self::Shared => "shared",
            Self::First => "first turn",
        }
    }
}

/// The results of one round of one target.
#[derive(Debug)]
pub(super) struct Round {
    /// Turns per second.
    pub(super) rate: f64,
    /// CPU of the server per turn, in microseconds.
    pub(super) cpu: f64,
    /// The latency of each turn, in milliseconds.
    pub(super) latencies: Vec<f64>,
    /// The time to the first text of each streamed turn, in milliseconds.
    pub(super) first_tokens: Vec<f64>,
}

/// Runs one round: connects, opens the sessions, waits until the server has nothing left to do for them, then measures.
pub(super) async fn round(testbed: &Testbed, server: &Server, plan: &Plan) -> io::Result<Round> {
    let mut clients = Clients::open(testbed.address(server), server.target(), plan).await?;
    if clients.have_opened_sessions() {
        tokio::time::sleep(SETTLED_AFTER).await;
    }
    let cpu_before = testbed.cpu(server)?;
    let started = Instant::now();
    let samples = clients.take_turns().await?;
    let elapsed = started.elapsed();
    let cpu = testbed.cpu(server)?.since(&cpu_before);
    let turns = samples.len() as f64;
    Ok(Round {
        rate: turns / elapsed.as_secs_f64(),
        cpu: cpu.as_secs_f64() * 1e6 / turns,
        latencies: samples.iter().map(|sample| milliseconds(sample.latency)).collect(),
        first_tokens: samples.iter().filter_map(|sample| sample.first_token).map(milliseconds).collect(),
    })
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A session name that is unique in this run.
pub(super) fn session_name() -> String {
    format!("bench-{}-{}", std::process::id(), SESSIONS.fetch_add(1, Ordering::Relaxed))
}

/// Fails after [`PATIENCE`].
pub(super) async fn in_time<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(PATIENCE, work).await.map_err(io::Error::other)?
}

/// Opens a connection of the load client.
pub(super) async fn connect(address: SocketAddr) -> io::Result<Connection> {
    Connection::new(TcpStream::connect(address).await?)
}

/// Sends a request and reads the whole answer. Fails on an HTTP error.
pub(super) async fn exchange(connection: &mut Connection, request: &[u8]) -> io::Result<Sample> {
    converse(connection, request).await.map(|(sample, _)| sample)
}

/// Like [`exchange`], and returns the answer too.
pub(super) async fn converse(connection: &mut Connection, request: &[u8]) -> io::Result<(Sample, Message)> {
    let started = Instant::now();
    connection.stream.write_all(request).await?;
    let mut first_token = None;
    let answer = connection.read(|body| {
        if first_token.is_none() && shows_token(body) {
            first_token = Some(started.elapsed());
        }
    });
    let answer = answer.await?.ok_or_else(|| io::Error::other("the server closed the connection"))?;
    let latency = started.elapsed();
    if !(200..300).contains(&answer.status) {
        return Err(io::Error::other(format!("HTTP {}: {}", answer.status, unframed(&answer))));
    }
    Ok((Sample { latency, first_token }, answer))
}

/// Whether a piece of an answer has a content that is not empty.
pub(super) fn shows_token(body: &[u8]) -> bool {
    const CONTENT: &[u8] = b"\"content\":\"";
    memchr::memmem::find_iter(body, CONTENT).any(|at| body.get(at + CONTENT.len()).is_some_and(|next| *next != b'"'))
}

/// The times of one turn.
#[derive(Debug)]
pub(super) struct Sample {
    /// Until the last byte.
    pub(super) latency: Duration,
    /// Until the first text.
    pub(super) first_token: Option<Duration>,
}

/// The clients of a round.
pub(super) struct Clients {
    clients: Vec<Client>,
    turns_per_client: usize,
}

impl Clients {
    /// Connects all clients, and sends their sessions the history.
    pub(super) async fn open(address: SocketAddr, target: Target, plan: &Plan) -> io::Result<Self> {
        let turns_per_client = plan.turns_of(target).div_ceil(plan.clients);
        let turns_per_session = plan.turns_per_session();
        let count = if target.keeps_history() { turns_per_client.div_ceil(turns_per_session) } else { 1 };
        let names = || (0..count).map(|_| session_name()).collect::<Vec<_>>();
        let shared = (plan.api == Api::Shared).then(names);
        let clients = (0..plan.clients).map(|number| {
            let names = shared.clone().unwrap_or_else(names);
            let mut sessions: Vec<Session> = names.iter().map(|name| Session::new(target, plan, name)).collect();
            if shared.is_some() && number > 0 {
                sessions.iter_mut().for_each(|session| session.opening = None);
            }
            Client::open(address, sessions, turns_per_session)
        });
        Ok(Self { clients: in_time(try_join_all(clients)).await?, turns_per_client })
    }

    /// Whether any session was sent a history.
    fn have_opened_sessions(&self) -> bool {
        self.clients.iter().flat_map(|client| &client.sessions).any(|session| session.opening.is_some())
    }

    /// All clients take their turns, at the same time.
    pub(super) async fn take_turns(&mut self) -> io::Result<Vec<Sample>> {
        let turns = self.clients.iter_mut().map(|client| client.take_turns(self.turns_per_client));
        Ok(in_time(try_join_all(turns)).await?.into_iter().flatten().collect())
    }
}

struct Client {
    connection: Connection,
    sessions: Vec<Session>,
    turns_per_session: usize,
}

impl Client {
    /// Connects, and sends each session its history.
    async fn open(address: SocketAddr, mut sessions: Vec<Session>, turns_per_session: usize) -> io::Result<Self> {
        let mut connection = connect(address).await?;
        for session in &mut sessions {
            if let Some(opening) = &session.opening {
                let (_, answer) = converse(&mut connection, opening).await?;
                session.answered(&answer)?;
            }
        }
        Ok(Self { connection, sessions, turns_per_session })
    }

    async fn take_turns(&mut self, turns: usize) -> io::Result<Vec<Sample>> {
        let mut samples = Vec::with_capacity(turns);
        for turn in 0..turns {
            let at = turn / self.turns_per_session % self.sessions.len();
            let session = &mut self.sessions[at];
            let (sample, answer) = converse(&mut self.connection, session.turn()).await?;
            session.answered(&answer)?;
            samples.push(sample);
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_content_is_no_token() {
        assert!(!shows_token(br#"data: {"delta":{"role":"assistant","content":""}}"#));
        assert!(!shows_token(br#"data: {"delta":{"content":""#));
        assert!(shows_token(br#"{"content":""} {"content":"Of "}"#));
    }
}

//! A gateway with a scripted model server, and requests that many tests make.

use std::time::Duration;

use herma_testkit::{Client, Event, EventStream, Gate, Herma, Launch, PATIENCE, Reply, ScriptedUpstream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use crate::stored::Stored;

pub(crate) const CHAT: &str = "/v1/chat/completions";

/// A scripted model server, a data directory, and one process on it. The directory outlives the process.
pub(crate) struct Cluster {
    pub(crate) upstream: ScriptedUpstream,
    pub(crate) herma: Herma,
    data: TempDir,
    settings: Vec<(String, String)>,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        Self::start_with(|launch| launch).await
    }

    pub(crate) async fn start_with(adjust: impl FnOnce(Launch) -> Launch) -> Self {
        let upstream = ScriptedUpstream::start().await;
        let data = tempfile::tempdir().unwrap();
        let herma = adjust(launch(&upstream, &data, &[])).start().await;
        Self { upstream, herma, data, settings: Vec::new() }
    }

    /// Starts with these environment variables for every process.
    pub(crate) async fn with_settings(settings: &[(&str, &str)]) -> Self {
        let upstream = ScriptedUpstream::start().await;
        let data = tempfile::tempdir().unwrap();
        let settings: Vec<_> = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let herma = launch(&upstream, &data, &settings).start().await;
        Self { upstream, herma, data, settings }
    }

    /// Starts one more process on the same data and the same model server.
    pub(crate) async fn another(&self) -> Herma {
        launch(&self.upstream, &self.data, &self.settings).start().await
    }

    /// Kills the process with SIGKILL, if it has not ended yet, and starts a new one.
    pub(crate) async fn restart(&mut self) {
        self.herma.kill();
        self.herma = self.another().await;
    }

    /// Like `restart`, with one more environment variable for the new process only.
    pub(crate) async fn restart_with(&mut self, name: &str, value: &str) {
        self.herma.kill();
        self.herma = launch(&self.upstream, &self.data, &self.settings).env(name, value).start().await;
    }

    /// A client that names this session.
    pub(crate) fn session(&self, id: &str) -> Client {
        named(self.herma.client(), id)
    }

    /// A view of the database for checks.
    pub(crate) fn stored(&self) -> Stored {
        Stored::open(self.data.path())
    }

    /// Holds the model's next answer at a gate and sends a request. Returns when the model has been called.
    pub(crate) async fn hold(&self, client: Client, body: Value) -> (Gate, JoinHandle<herma_testkit::Answer>) {
        let gate = Gate::new();
        self.upstream.push(Reply::Echo.held(&gate));
        let asked = tokio::spawn(async move { client.post_json(CHAT, &body).await });
        gate.until_waiting(1).await;
        (gate, asked)
    }
}

fn launch(upstream: &ScriptedUpstream, data: &TempDir, settings: &[(String, String)]) -> Launch {
    let launch = Launch::serve(env!("CARGO_BIN_EXE_herma")).upstream(&upstream.base_url()).data(data.path());
    settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value))
}

/// Adds the header that names a session.
pub(crate) fn named(client: Client, id: &str) -> Client {
    client.header("x-hermes-session-id", id)
}

/// Marks a request as a retry by an official SDK.
pub(crate) fn retry(client: &Client, count: u32) -> Client {
    client.clone().header("x-stainless-retry-count", &count.to_string())
}

/// How a client marks a request as sent again.
#[derive(Clone, Copy)]
pub(crate) enum RetryMark {
    Sdk,
    Key,
}

impl RetryMark {
    /// The client for the first request.
    pub(crate) fn first(self, client: Client) -> Client {
        match self {
            Self::Sdk => client,
            Self::Key => client.header("idempotency-key", "k"),
        }
    }

    /// The client for the repeated request.
    pub(crate) fn second(self, client: Client) -> Client {
        match self {
            Self::Sdk => retry(&client, 1),
            Self::Key => self.first(client),
        }
    }
}

pub(crate) fn ask(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

pub(crate) fn ask_streamed(text: &str) -> Value {
    streamed(ask(text))
}

pub(crate) fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

/// A request with a whole history: user and assistant alternate.
pub(crate) fn history(texts: &[&str]) -> Value {
    let roles = ["user", "assistant"].into_iter().cycle();
    let messages: Vec<Value> = roles.zip(texts).map(|(role, text)| json!({"role": role, "content": text})).collect();
    json!({"model": "m", "messages": messages})
}

/// The full view as `role: text`; partial answers are marked.
pub(crate) async fn transcript(client: &Client, alias: &str) -> Vec<String> {
    let page = client.get(&format!("/api/sessions/{alias}/messages?limit=200")).await.expect(200);
    let rows = page["data"].as_array().unwrap().iter();
    rows.map(|row| {
        let mark = if row["status"] == "partial" { " (partial)" } else { "" };
        format!("{}{mark}: {}", row["role"].as_str().unwrap(), row["content"].as_str().unwrap())
    })
    .collect()
}

/// Sends without waiting for the answer.
pub(crate) fn send(client: Client, body: Value) -> JoinHandle<herma_testkit::Answer> {
    tokio::spawn(async move { client.post_json(CHAT, &body).await })
}

/// Sends a request with these header lines and does not read the answer. The kernel accepts the request even for a
/// stopped process.
pub(crate) async fn send_only(herma: &Herma, path: &str, headers: &str, body: &Value) -> TcpStream {
    let body = serde_json::to_vec(body).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: herma\r\nauthorization: Bearer test-key\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    send_bytes(herma, &[head.as_bytes(), &body].concat()).await
}

/// Sends a request without a body, such as `DELETE /api/sessions/s`, and does not read the answer.
pub(crate) async fn send_bare(herma: &Herma, request: &str) -> TcpStream {
    let head = format!("{request} HTTP/1.1\r\nhost: herma\r\nauthorization: Bearer test-key\r\n\r\n");
    send_bytes(herma, head.as_bytes()).await
}

async fn send_bytes(herma: &Herma, bytes: &[u8]) -> TcpStream {
    let address = herma.base_url().trim_start_matches("http://").parse().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    // With a small buffer, most of a long answer stays with the server.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut socket = socket.connect(address).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    socket
}

/// Reads a chat stream up to its next piece of text, and returns that piece.
pub(crate) async fn next_text(stream: &mut EventStream) -> String {
    loop {
        let event = stream.next().await.expect("a piece of text before the end");
        let text = event.json()["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned();
        if !text.is_empty() {
            return text;
        }
    }
}

/// The error that a stream ended with.
pub(crate) fn stream_error(events: &[Event]) -> Value {
    let errors = events.iter().filter(|event| event.data.starts_with('{')).map(Event::json);
    errors.map(|data| data["error"].clone()).find(|error| !error.is_null()).expect("a stream that failed")
}

/// The distinct ids of the chunks of a stream, in order.
pub(crate) fn ids(chunks: &[Value]) -> Vec<String> {
    let mut ids: Vec<String> = chunks.iter().filter_map(|chunk| chunk["id"].as_str().map(str::to_owned)).collect();
    ids.dedup();
    ids
}

/// Polls until a condition holds; fails with `what` if it does not hold in time.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "{what}");
}

//! A server that answers each request with the next reply of a script, byte for byte.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use herma_model::{ModelCall, ModelEvent, ModelFailure, Params, Payload, Retries};
use herma_upstream::{Connections, HttpModelServer, HttpSettings, ModelServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

pub(crate) const KEY: &str = "hunter2-very-secret";

/// What the server does after the bytes of a reply.
#[derive(Debug, Clone, Copy)]
enum AfterReply {
    NextRequest,
    /// Sends the end of a chunked body a little later, and then reads the next request.
    LateEnd,
    Close,
    Silence,
}

/// The bytes of a reply, in the pieces in which they are written.
pub(crate) struct Reply {
    pieces: Vec<String>,
    then: AfterReply,
}

impl Reply {
    /// A body with a `Content-Length`, on a connection that stays open.
    pub(crate) fn document(status: &str, headers: &str, body: &str) -> Self {
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        Self { pieces: vec![head, body.to_owned()], then: AfterReply::NextRequest }
    }

    /// A JSON document.
    pub(crate) fn json(status: &str, body: &str) -> Self {
        Self::document(status, "Content-Type: application/json\r\n", body)
    }

    /// An event stream whose connection is closed after the last piece.
    pub(crate) fn events(pieces: &[&str]) -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
        let pieces = [head].iter().chain(pieces).map(|piece| (*piece).to_owned()).collect();
        Self { pieces, then: AfterReply::Close }
    }

    /// A chunked event stream on a connection that stays open. The end of the body comes late.
    pub(crate) fn chunked_events(pieces: &[&str]) -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len()));
        let pieces = [head.to_owned()].into_iter().chain(chunks).collect();
        Self { pieces, then: AfterReply::LateEnd }
    }

    /// Any bytes. Then the connection is closed.
    pub(crate) fn raw(bytes: &str) -> Self {
        Self { pieces: vec![bytes.to_owned()], then: AfterReply::Close }
    }

    /// The same reply. After it the server sends nothing and keeps the connection open.
    pub(crate) fn then_silence(self) -> Self {
        Self { then: AfterReply::Silence, ..self }
    }
}

/// A running server. It stops when the test's runtime stops.
pub(crate) struct Scripted {
    pub(crate) base_url: String,
    state: Arc<ServerState>,
}

#[derive(Default)]
struct ServerState {
    script: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
    /// How many connections the server has closed.
    closed: watch::Sender<usize>,
    hang_up: Notify,
}

impl Scripted {
    pub(crate) async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let state =
            Arc::new(ServerState { script: Mutex::new(script.into_iter().collect()), ..ServerState::default() });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { base_url, state }
    }

    /// A client of this server that waits at most `timeout` and repeats a call `retries` times.
    pub(crate) fn client(&self, timeout: Duration, retries: u32) -> HttpModelServer {
        HttpModelServer::new(HttpSettings { timeout, retries, ..self.settings() }, &Connections::default()).unwrap()
    }

    /// Settings with the key and no headers.
    pub(crate) fn settings(&self) -> HttpSettings {
        let api_key = Some(KEY.to_owned());
        let base_url = self.base_url.clone();
        HttpSettings { base_url, api_key, headers: Vec::new(), timeout: Duration::from_secs(30), retries: 0 }
    }

    /// The requests so far, each with head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.state.requests.lock().unwrap().clone()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Waits until the server has closed this many connections.
    pub(crate) async fn closed(&self, count: usize) {
        self.state.closed.subscribe().wait_for(|closed| *closed >= count).await.unwrap();
        // The runtime looks at its sockets before it goes on.
        tokio::task::yield_now().await;
    }

    /// Waits until a client has closed a connection.
    pub(crate) async fn hang_up(&self) {
        self.state.hang_up.notified().await;
    }
}

async fn serve(mut stream: TcpStream, state: Arc<ServerState>) {
    stream.set_nodelay(true).unwrap();
    while let Some(request) = read_request(&mut stream).await {
        state.requests.lock().unwrap().push(request);
        let Some(reply) = state.script.lock().unwrap().pop_front() else { return };
        for piece in reply.pieces {
            if stream.write_all(piece.as_bytes()).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        match reply.then {
            AfterReply::NextRequest => {}
            AfterReply::LateEnd => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                if stream.write_all(b"0\r\n\r\n").await.is_err() {
                    break;
                }
            }
            AfterReply::Close => {
                drop(stream);
                state.closed.send_modify(|closed| *closed += 1);
                return;
            }
            AfterReply::Silence => while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {},
        }
    }
    state.hang_up.notify_one();
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}

/// A call with one message.
pub(crate) fn call(streaming: bool) -> ModelCall {
    ModelCall {
        model: "m".to_owned(),
        messages: vec![Payload::from_json(r#"{"role":"user","content":"hi"}"#)],
        params: Arc::new(Params(vec![("temperature".into(), "0.5".into())])),
        streaming,
        retries: Retries::AsConfigured,
        trace: None,
    }
}

/// All events of a call, and the failure if one ended it.
pub(crate) async fn outcome(server: &HttpModelServer, streaming: bool) -> (Vec<ModelEvent>, Option<ModelFailure>) {
    let mut stream = match server.call(call(streaming)).await {
        Ok(stream) => stream,
        Err(failure) => return (Vec::new(), Some(failure)),
    };
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(arrived) => events.extend(arrived),
            Err(failure) => {
                assert!(stream.next().await.is_none(), "nothing follows a failure");
                return (events, Some(failure));
            }
        }
    }
    (events, None)
}

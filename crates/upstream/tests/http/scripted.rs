//! A server that answers each request with the next reply of a script, byte by byte as written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use herma_model::{ModelCall, ModelEvent, ModelFailure, Params, Payload, Retries};
use herma_upstream::{HttpModelServer, HttpSettings, ModelServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

pub(crate) const KEY: &str = "hunter2-very-secret";

/// What follows the bytes of a reply.
#[derive(Debug, Clone, Copy)]
enum Then {
    NextRequest,
    /// The end of a chunked body a little later, and then the next request.
    LateEnd,
    Close,
    Silence,
}

/// The bytes of a reply, in the pieces they are written in.
pub(crate) struct Reply {
    pieces: Vec<String>,
    then: Then,
}

impl Reply {
    /// A body with its length, on a connection that stays open.
    pub(crate) fn document(status: &str, headers: &str, body: &str) -> Self {
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        Self { pieces: vec![head, body.to_owned()], then: Then::NextRequest }
    }

    /// A JSON document.
    pub(crate) fn json(status: &str, body: &str) -> Self {
        Self::document(status, "Content-Type: application/json\r\n", body)
    }

    /// An event stream whose connection is closed after the last piece.
    pub(crate) fn events(pieces: &[&str]) -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";
        let pieces = [head].iter().chain(pieces).map(|piece| (*piece).to_owned()).collect();
        Self { pieces, then: Then::Close }
    }

    /// An event stream in chunks, on a connection that stays open; the end of the body comes late.
    pub(crate) fn chunked_events(pieces: &[&str]) -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = pieces.iter().map(|piece| format!("{:x}\r\n{piece}\r\n", piece.len()));
        let pieces = [head.to_owned()].into_iter().chain(chunks).collect();
        Self { pieces, then: Then::LateEnd }
    }

    /// Any bytes, and then the end of the connection.
    pub(crate) fn raw(bytes: &str) -> Self {
        Self { pieces: vec![bytes.to_owned()], then: Then::Close }
    }

    /// The same reply, after which the server falls silent.
    pub(crate) fn then_silence(self) -> Self {
        Self { then: Then::Silence, ..self }
    }
}

/// A running server. It ends with the test's runtime.
pub(crate) struct Scripted {
    pub(crate) base_url: String,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    script: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
    hang_up: Notify,
}

impl Scripted {
    pub(crate) async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let seen = Arc::new(Seen { script: Mutex::new(script.into_iter().collect()), ..Seen::default() });
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { base_url, seen }
    }

    /// A client of this server that gives up after `timeout` and tries `retries` times more.
    pub(crate) fn client(&self, timeout: Duration, retries: u32) -> HttpModelServer {
        let api_key = Some(KEY.to_owned());
        HttpModelServer::new(HttpSettings { base_url: self.base_url.clone(), api_key, timeout, retries }).unwrap()
    }

    /// The requests so far, heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// Waits until a client has closed a connection.
    pub(crate) async fn hang_up(&self) {
        self.seen.hang_up.notified().await;
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Seen>) {
    stream.set_nodelay(true).unwrap();
    while let Some(request) = read_request(&mut stream).await {
        seen.requests.lock().unwrap().push(request);
        let Some(reply) = seen.script.lock().unwrap().pop_front() else { return };
        for piece in reply.pieces {
            if stream.write_all(piece.as_bytes()).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        match reply.then {
            Then::NextRequest => {}
            Then::LateEnd => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                if stream.write_all(b"0\r\n\r\n").await.is_err() {
                    break;
                }
            }
            Then::Close => return,
            Then::Silence => while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {},
        }
    }
    seen.hang_up.notify_one();
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
    }
}

/// Everything a call yields, and the failure that ended it.
pub(crate) async fn outcome(server: &HttpModelServer, streaming: bool) -> (Vec<ModelEvent>, Option<ModelFailure>) {
    let mut stream = match server.call(call(streaming)).await {
        Ok(stream) => stream,
        Err(failure) => return (Vec::new(), Some(failure)),
    };
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(failure) => {
                assert!(stream.next().await.is_none(), "nothing follows a failure");
                return (events, Some(failure));
            }
        }
    }
    (events, None)
}

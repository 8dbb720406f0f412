//! The durable floor: the least that a durable gateway can do.
//!
//! Turns of a session run in order. The history is in memory and is sent upstream before the new messages. One
//! group-committed transaction stores the new messages and the answer before the last byte is sent. There is nothing
//! else: no keys, no aliases, no leases, no retries, no recovery after a restart.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::BytesMut;
use futures_util::stream;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::OwnedMutexGuard;

use super::journal::Journal;

/// The messages of a session as JSON texts.
type History = Vec<Box<str>>;

#[derive(Clone)]
struct Floor {
    client: reqwest::Client,
    url: String,
    journal: Journal,
    sessions: Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<History>>>>>,
}

#[derive(Deserialize)]
struct Request<'a> {
    model: &'a str,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(default)]
    stream: bool,
}

/// Serves until it is killed.
pub(in crate::bench) fn serve(upstream: &str, data: &Path) -> io::Result<()> {
    super::serve(|| router(upstream, data))
}

fn router(upstream: &str, data: &Path) -> io::Result<Router> {
    let (url, journal) = (super::chat_url(upstream), Journal::open(data)?);
    let floor = Floor { client: super::client()?, url, journal, sessions: Arc::default() };
    Ok(Router::new().route("/v1/chat/completions", post(turn)).with_state(floor))
}

async fn turn(State(floor): State<Floor>, headers: HeaderMap, body: Bytes) -> Response {
    match floor.run(&headers, &body).await {
        Ok(response) => response,
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

impl Floor {
    async fn run(self, headers: &HeaderMap, body: &[u8]) -> io::Result<Response> {
        let request: Request<'_> = serde_json::from_slice(body)?;
        let session = headers.get("x-hermes-session-id").and_then(|id| id.to_str().ok());
        let session = session.map_or_else(new_session, str::to_owned);
        let history = self.lock(&session).await?;
        let new: History = request.messages.iter().map(|message| message.get().into()).collect();
        let body = upstream_body(&request, &history, &new);
        let send = self.client.post(&self.url).header(header::CONTENT_TYPE, "application/json").body(body);
        let answer = send.send().await.map_err(io::Error::other)?;
        let turn = Turn { journal: self.journal, session, history, new };
        if request.stream {
            let (unread, text) = (BytesMut::new(), String::new());
            let passing = Passing { answer, turn: Some(turn), unread, is_at_end: false, text };
            let body = Body::from_stream(stream::try_unfold(passing, Passing::next));
            return Ok(([(header::CONTENT_TYPE, "text/event-stream")], body).into_response());
        }
        let whole = answer.bytes().await.map_err(io::Error::other)?;
        turn.commit(spoken(&whole)?).await?;
        Ok(([(header::CONTENT_TYPE, "application/json")], whole).into_response())
    }

    async fn lock(&self, session: &str) -> io::Result<OwnedMutexGuard<History>> {
        let history = {
            let mut sessions = self.sessions.lock().map_err(|_| io::Error::other("a turn panicked"))?;
            Arc::clone(sessions.entry(session.to_owned()).or_default())
        };
        Ok(history.lock_owned().await)
    }
}

/// What to store when the answer is complete. The session is locked until then.
struct Turn {
    journal: Journal,
    session: String,
    history: OwnedMutexGuard<History>,
    new: History,
}

impl Turn {
    async fn commit(mut self, answer: Box<str>) -> io::Result<()> {
        self.new.push(answer);
        self.journal.append(&self.session, self.history.len(), self.new.clone()).await?;
        self.history.append(&mut self.new);
        Ok(())
    }
}

/// A streamed answer. Frames that came together are forwarded together, but the last ones only after the commit.
struct Passing {
    answer: reqwest::Response,
    turn: Option<Turn>,
    unread: BytesMut,
    /// Whether `unread` begins with the first frame that has to wait for the commit.
    is_at_end: bool,
    text: String,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
}

impl Passing {
    async fn next(mut self) -> io::Result<Option<(Bytes, Self)>> {
        loop {
            let ready = self.ready()?;
            if ready > 0 {
                return Ok(Some((self.unread.split_to(ready).freeze(), self)));
            }
            match self.answer.chunk().await.map_err(io::Error::other)? {
                Some(bytes) => self.unread.extend_from_slice(&bytes),
                None => {
                    let Some(turn) = self.turn.take() else { return Ok(None) };
                    let message = serde_json::json!({"role": "assistant", "content": self.text});
                    turn.commit(message.to_string().into()).await?;
                    return Ok(Some((self.unread.split().freeze(), self)));
                }
            }
        }
    }

    /// The length of the frames that may be sent before the commit. Reads their texts.
    fn ready(&mut self) -> io::Result<usize> {
        let mut ready = 0;
        while !self.is_at_end
            && let Some(end) = memchr::memmem::find(&self.unread[ready..], b"\n\n")
        {
            let data = self.unread[ready..ready + end].strip_prefix(b"data: ").unwrap_or_default();
            let chunk: Option<Chunk> = (data != b"[DONE]").then(|| serde_json::from_slice(data)).transpose()?;
            let choice = chunk.and_then(|chunk| chunk.choices.into_iter().next());
            match choice.filter(|choice| choice.finish_reason.is_none()) {
                Some(choice) => self.text.push_str(choice.delta.content.as_deref().unwrap_or_default()),
                None => {
                    self.is_at_end = true;
                    break;
                }
            }
            ready += end + 2;
        }
        Ok(ready)
    }
}

/// A name for a conversation that its client does not name.
fn new_session() -> String {
    static SESSIONS: AtomicUsize = AtomicUsize::new(0);
    format!("unnamed-{:024}", SESSIONS.fetch_add(1, Ordering::Relaxed))
}

fn upstream_body(request: &Request<'_>, history: &[Box<str>], new: &[Box<str>]) -> String {
    let length: usize = history.iter().chain(new).map(|message| message.len() + 1).sum();
    let mut body = String::with_capacity(length + request.model.len() + 64);
    body.push_str("{\"model\":\"");
    body.push_str(request.model);
    body.push_str(if request.stream { "\",\"stream\":true,\"messages\":[" } else { "\",\"messages\":[" });
    for (index, message) in history.iter().chain(new).enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(message);
    }
    body.push_str("]}");
    body
}

/// The message of an answer that is not streamed, byte for byte.
fn spoken(answer: &[u8]) -> io::Result<Box<str>> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        choices: Vec<Spoken<'a>>,
    }
    #[derive(Deserialize)]
    struct Spoken<'a> {
        #[serde(borrow)]
        message: &'a RawValue,
    }
    let answer: Answer<'_> = serde_json::from_slice(answer)?;
    let first = answer.choices.first().ok_or_else(|| io::Error::other("an answer without a choice"))?;
    Ok(first.message.get().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use herma_testkit::{Client, ScriptedUpstream};
    use serde_json::json;
    use tempfile::TempDir;

    async fn started(upstream: &ScriptedUpstream) -> (Client, TempDir) {
        let data = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = router(&upstream.base_url(), data.path()).unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        (Client::new(url).header("x-hermes-session-id", "s"), data)
    }

    fn stored(data: &TempDir) -> Vec<String> {
        let database = rusqlite::Connection::open(data.path().join("floor.db")).unwrap();
        let mut messages = database.prepare("SELECT body FROM messages ORDER BY session, seq").unwrap();
        messages.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[tokio::test]
    async fn the_history_goes_upstream_and_is_stored_when_the_answer_has_ended() {
        let upstream = ScriptedUpstream::start().await;
        let (client, data) = started(&upstream).await;
        let chat = "/v1/chat/completions";
        let whole = json!({"model": "m", "messages": [{"role": "user", "content": "one"}]});
        assert_eq!(client.post_json(chat, &whole).await.content(), "reply to: one");
        assert_eq!(stored(&data).len(), 2);
        let streamed = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "two"}]});
        let events = client.post_stream(chat, &streamed).await.rest().await;
        assert_eq!(events.last().unwrap().data, "[DONE]");
        let transcript = ["user: one", "assistant: reply to: one", "user: two"];
        assert_eq!(upstream.last_request().transcript(), transcript);
        let stored = stored(&data);
        assert_eq!(stored.len(), 4);
        assert_eq!(stored[3], r#"{"role":"assistant","content":"reply to: two"}"#);
    }
}

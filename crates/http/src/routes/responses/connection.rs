//! One WebSocket: each message asks for a turn, and each event of the turn is sent back as a message.
//!
//! At most one turn runs at a time; messages that come meanwhile wait, up to a limit. Turns work as with `POST`: both
//! submit requests by [`take`] and show them by [`ResponseFrames`].

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseCode, CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use bytes::Bytes;
use herma_model::Principal;
use herma_wire::responses::{self, ResponsesRequest};
use herma_wire::sse;
use http::HeaderMap;
use tokio::sync::OwnedSemaphorePermit;
use tungstenite::Error as Broken;

use super::create::{Taken, read, take};
use super::frames::ResponseFrames;
use super::memory::{Memory, Said};
use crate::app::Shared;
use crate::auth;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::request_log::{self, Notes};
use crate::sockets::Closing;
use crate::stream::{KEEP_ALIVE, Reader, TurnStream};

/// The most messages that wait while a turn runs.
const MOST_WAITING: usize = 16;
/// After this many unanswered pings the client counts as gone.
const MOST_UNANSWERED: u32 = 4;
/// How long sending one message may take.
const MOST_PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait for the client's close frame.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// An open WebSocket.
pub(super) struct Connection {
    /// Released before the client can see that the connection has ended.
    _place: OwnedSemaphorePermit,
    app: Shared,
    /// The headers of the upgrade. They are authenticated again for each turn, because the key may have been revoked.
    caller: HeaderMap,
    headers: SessionHeaders,
    socket: WebSocket,
    closing: Closing,
    opened: Instant,
    /// Pings sent since the last message from the client.
    unanswered: u32,
    waiting: VecDeque<Utf8Bytes>,
    memory: Memory,
}

/// Why a connection ends.
enum End {
    /// The client has left or cannot be reached.
    Gone,
    /// A close frame with this code and reason is sent.
    Close(CloseCode, &'static str),
}

/// Sends the error and closes the connection.
pub(super) async fn refuse(mut socket: WebSocket, error: &ApiError) {
    let told = Message::Text(error.event().into());
    if timely(socket.send(told)).await.is_ok() {
        close(socket, close_code::AGAIN, "too many WebSockets are open").await;
    }
}

impl Connection {
    pub(super) fn new(
        place: OwnedSemaphorePermit,
        app: Shared,
        caller: HeaderMap,
        headers: SessionHeaders,
        socket: WebSocket,
    ) -> Self {
        let (closing, opened) = (app.sockets.closing(), Instant::now());
        Self {
            _place: place,
            app,
            caller,
            headers,
            socket,
            closing,
            opened,
            unanswered: 0,
            waiting: VecDeque::new(),
            memory: Memory::default(),
        }
    }

    /// Serves turns until the connection ends.
    pub(super) async fn serve(mut self) {
        let end = loop {
            match self.one_turn().await {
                Ok(()) => {}
                Err(end) => break end,
            }
        };
        if let End::Close(code, why) = end {
            close(self.socket, code, why).await;
        }
    }

    async fn one_turn(&mut self) -> Result<(), End> {
        let message = self.next_message().await?;
        let caller = self.caller.clone();
        request_log::write_message(&caller, self.turn_of(message)).await
    }

    /// Runs the turn that a message asks for and sends its events.
    async fn turn_of(&mut self, message: Utf8Bytes) -> Result<(), End> {
        let read = read_message(Arc::clone(&self.app), self.caller.clone(), message.clone());
        let (principal, mut asked) = match self.while_listening(read).await? {
            Ok(read) => read,
            Err(error) => {
                self.memory.forget(responses::continued_response(message.as_bytes()).as_deref());
                Notes::current().failed(&error);
                return self.tell(&error).await;
            }
        };
        let previous = asked.previous_response_id.clone();
        self.memory.recall(&mut asked);
        let said = Said::by(&asked);
        let (app, headers) = (Arc::clone(&self.app), self.headers.clone());
        let begun = async move {
            let Taken { handle, mut kept } = take(&app, &principal, headers, asked, message.as_bytes()).await?;
            kept.previous = previous;
            TurnStream::new(&app, handle, ResponseFrames::new(kept), Reader::Asked).begin().await
        };
        match self.while_listening(begun).await? {
            Ok(stream) => self.show(stream, said).await,
            Err(error) => {
                Notes::current().failed(&error);
                self.tell(&error).await
            }
        }
    }

    /// The next message: the first that waits, or the next that comes.
    async fn next_message(&mut self) -> Result<Utf8Bytes, End> {
        let lifetime = self.app.settings.websocket_lifetime;
        let mut closing = self.closing.clone();
        loop {
            let left = lifetime.saturating_sub(self.opened.elapsed());
            if let Some(message) = self.waiting.pop_front_if(|_| !left.is_zero()) {
                return Ok(message);
            }
            let heard = tokio::select! {
                biased;
                () = closing.told() => {
                    return Err(End::Close(close_code::AWAY, "the server is stopping"));
                }
                () = tokio::time::sleep(left) => {
                    self.tell(&ApiError::socket_too_old(lifetime)).await?;
                    return Err(End::Close(close_code::NORMAL, "the connection has been open for long enough"));
                }
                heard = hear(&mut self.socket) => heard,
            };
            self.heed(heard).await?;
        }
    }

    /// Sends the events of a turn, to its end.
    async fn show(&mut self, mut stream: TurnStream<ResponseFrames>, said: Said) -> Result<(), End> {
        while let Some(frame) = self.while_listening(stream.next()).await? {
            let event = sse::data(&frame).filter(|_| frame != sse::DONE);
            let Some(event) = event.and_then(|event| Utf8Bytes::try_from(event).ok()) else { continue };
            self.send(Message::Text(event)).await?;
        }
        if let Some(finished) = stream.finished() {
            self.memory.remember(said, finished, self.app.settings.max_body_bytes);
        }
        Ok(())
    }

    /// Waits for `awaited`, and receives messages of the client meanwhile.
    async fn while_listening<T>(&mut self, awaited: impl Future<Output = T>) -> Result<T, End> {
        let mut awaited = std::pin::pin!(awaited);
        loop {
            let heard = tokio::select! {
                biased;
                value = &mut awaited => return Ok(value),
                heard = hear(&mut self.socket) => heard,
            };
            self.heed(heard).await?;
        }
    }

    async fn heed(&mut self, heard: Heard) -> Result<(), End> {
        match heard {
            Heard::Message(message) => {
                self.unanswered = 0;
                self.keep(message).await
            }
            Heard::Nothing if self.unanswered == MOST_UNANSWERED => Err(End::Gone),
            Heard::Nothing => {
                self.unanswered += 1;
                self.send(Message::Ping(Bytes::new())).await
            }
            Heard::End(end) => Err(end),
        }
    }

    async fn keep(&mut self, message: Message) -> Result<(), End> {
        let limit = self.app.settings.max_body_bytes;
        match message {
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Close(_) => {
                // Receiving once more sends the close frame that answers the client's.
                drop(tokio::time::timeout(LAST_WORDS, self.socket.recv()).await);
                Err(End::Gone)
            }
            Message::Binary(_) => {
                self.tell(&ApiError::not_text()).await?;
                Err(End::Close(close_code::UNSUPPORTED, "a message must be text"))
            }
            Message::Text(text) if text.len() > limit => {
                self.tell(&ApiError::body_too_large(limit)).await?;
                Err(End::Close(close_code::SIZE, "the message is too large"))
            }
            Message::Text(text) => {
                let bytes: usize = self.waiting.iter().map(|waiting| waiting.len()).sum();
                if self.waiting.len() == MOST_WAITING || bytes + text.len() > limit {
                    return self.tell(&ApiError::too_many_waiting(MOST_WAITING)).await;
                }
                self.waiting.push_back(text);
                Ok(())
            }
        }
    }

    async fn tell(&mut self, error: &ApiError) -> Result<(), End> {
        self.send(Message::Text(error.event().into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), End> {
        timely(self.socket.send(message)).await
    }
}

/// What came from the client.
enum Heard {
    Message(Message),
    /// No message came within the keep-alive time.
    Nothing,
    End(End),
}

/// Waits for a message, or until the keep-alive time is over. Cancel-safe.
async fn hear(socket: &mut WebSocket) -> Heard {
    match tokio::time::timeout(KEEP_ALIVE, socket.recv()).await {
        Err(_) => Heard::Nothing,
        Ok(None) => Heard::End(End::Gone),
        Ok(Some(Err(error))) => Heard::End(end_of(error)),
        Ok(Some(Ok(message))) => Heard::Message(message),
    }
}

/// Authenticates a message and reads it as a request for a stream.
async fn read_message(
    app: Shared,
    caller: HeaderMap,
    message: Utf8Bytes,
) -> Result<(Principal, ResponsesRequest), ApiError> {
    let principal = auth::principal(&app, &caller).await?;
    let body = message.as_bytes();
    responses::check_message(body)?;
    let asked = read(&app, &principal, body).await?;
    Ok((principal, ResponsesRequest { stream: true, ..asked }))
}

async fn timely(sent: impl Future<Output = Result<(), axum::Error>>) -> Result<(), End> {
    match tokio::time::timeout(MOST_PATIENCE, sent).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(End::Gone),
    }
}

/// How the connection ends after a receive error. A client that broke the protocol gets a close frame.
fn end_of(error: axum::Error) -> End {
    match error.into_inner().downcast_ref::<Broken>() {
        Some(Broken::Capacity(_)) => End::Close(close_code::SIZE, "the message is too large"),
        Some(Broken::Utf8(_)) => End::Close(close_code::INVALID, "the message is not UTF-8"),
        Some(Broken::Protocol(_)) => End::Close(close_code::PROTOCOL, "this is not the WebSocket protocol"),
        _ => End::Gone,
    }
}

/// Sends a close frame and waits a little for the answer. Without the wait the client may lose the last messages.
async fn close(mut socket: WebSocket, code: CloseCode, why: &'static str) {
    let goodbye = Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(why) }));
    if timely(socket.send(goodbye)).await.is_ok() {
        let answered = async { while let Some(Ok(_)) = socket.recv().await {} };
        drop(tokio::time::timeout(LAST_WORDS, answered).await);
    }
}

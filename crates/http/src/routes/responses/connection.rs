//! One WebSocket: each message asks for a turn, and each event of the turn is sent back as a message.
//!
//! At most one turn runs at a time; messages that come meanwhile wait, up to a limit. Turns work as with `POST`: both
//! submit requests by [`submit`] and show them by [`ResponseFrames`].

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
use tungstenite::Error as WebSocketError;

use super::create::{Submitted, read, submit};
use super::frames::ResponseFrames;
use super::memory::{Memory, RememberedMessages};
use crate::app::Shared;
use crate::auth;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::request_log::{self, Notes};
use crate::sockets::Closing;
use crate::stream::{KEEP_ALIVE, StreamReader, TurnStream};

/// The most messages that wait while a turn runs.
const MAX_WAITING_MESSAGES: usize = 16;
/// After this many unanswered pings the client counts as gone.
const MAX_UNANSWERED_PINGS: u32 = 4;
/// How long sending one message may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait for the client's close frame.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// An open WebSocket.
pub(super) struct Connection {
    /// Released before the client can see that the connection has ended.
    _permit: OwnedSemaphorePermit,
    app: Shared,
    /// The headers of the upgrade. They are authenticated again for each turn, because the key may have been revoked.
    caller: HeaderMap,
    headers: SessionHeaders,
    socket: WebSocket,
    closing: Closing,
    opened: Instant,
    /// Pings sent since the last message from the client.
    unanswered_pings: u32,
    waiting: VecDeque<Utf8Bytes>,
    memory: Memory,
}

/// Why a connection ends.
enum ConnectionEnd {
    /// The client has left or cannot be reached.
    Gone,
    /// A close frame with this code and reason is sent.
    Close(CloseCode, &'static str),
}

/// Sends the error and closes the connection.
pub(super) async fn refuse(mut socket: WebSocket, error: &ApiError) {
    let event = Message::Text(error.event().into());
    if with_timeout(socket.send(event)).await.is_ok() {
        close(socket, close_code::AGAIN, "too many WebSockets are open").await;
    }
}

impl Connection {
    pub(super) fn new(
        permit: OwnedSemaphorePermit,
        app: Shared,
        caller: HeaderMap,
        headers: SessionHeaders,
        socket: WebSocket,
    ) -> Self {
        let (closing, opened) = (app.sockets.closing(), Instant::now());
        Self {
            _permit: permit,
            app,
            caller,
            headers,
            socket,
            closing,
            opened,
            unanswered_pings: 0,
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
        if let ConnectionEnd::Close(code, why) = end {
            close(self.socket, code, why).await;
        }
    }

    async fn one_turn(&mut self) -> Result<(), ConnectionEnd> {
        let message = self.next_message().await?;
        let (app, caller) = (Arc::clone(&self.app), self.caller.clone());
        request_log::write_message(&caller, &app.gateway.settings().tracer, self.turn_of(message)).await
    }

    /// Runs the turn that a message asks for and sends its events.
    async fn turn_of(&mut self, message: Utf8Bytes) -> Result<(), ConnectionEnd> {
        let read = read_message(Arc::clone(&self.app), self.caller.clone(), message.clone());
        let (principal, mut asked) = match self.while_listening(read).await? {
            Ok(read) => read,
            Err(error) => {
                self.memory.forget(responses::continued_response(message.as_bytes()).as_deref());
                Notes::current().failed(&error);
                return self.send_error(&error).await;
            }
        };
        let previous = asked.previous_response_id.clone();
        self.memory.recall(&mut asked);
        let remembered = RememberedMessages::of_request(&asked);
        let (app, headers) = (Arc::clone(&self.app), self.headers.clone());
        let begun = async move {
            let Submitted { handle, mut stored } = submit(&app, &principal, headers, asked, message.as_bytes()).await?;
            stored.previous = previous;
            TurnStream::new(&app, handle, ResponseFrames::new(stored), StreamReader::Requester).begin().await
        };
        match self.while_listening(begun).await? {
            Ok(stream) => self.show(stream, remembered).await,
            Err(error) => {
                Notes::current().failed(&error);
                self.send_error(&error).await
            }
        }
    }

    /// The next message: the first that waits, or the next that comes.
    async fn next_message(&mut self) -> Result<Utf8Bytes, ConnectionEnd> {
        let lifetime = self.app.settings.websocket_lifetime;
        let mut closing = self.closing.clone();
        loop {
            let left = lifetime.saturating_sub(self.opened.elapsed());
            if let Some(message) = self.waiting.pop_front_if(|_| !left.is_zero()) {
                return Ok(message);
            }
            let received = tokio::select! {
                biased;
                () = closing.requested() => {
                    return Err(ConnectionEnd::Close(close_code::AWAY, "the server is stopping"));
                }
                () = tokio::time::sleep(left) => {
                    self.send_error(&ApiError::socket_too_old(lifetime)).await?;
                    let why = "the connection has been open for long enough";
                    return Err(ConnectionEnd::Close(close_code::NORMAL, why));
                }
                received = receive(&mut self.socket) => received,
            };
            self.react_to(received).await?;
        }
    }

    /// Sends the events of a turn, to its end.
    async fn show(
        &mut self,
        mut stream: TurnStream<ResponseFrames>,
        remembered: RememberedMessages,
    ) -> Result<(), ConnectionEnd> {
        while let Some(frames) = self.while_listening(stream.next()).await? {
            for frame in sse::split(&frames) {
                let event = sse::data(&frame).filter(|_| frame != sse::DONE);
                let Some(event) = event.and_then(|event| Utf8Bytes::try_from(event).ok()) else { continue };
                self.send(Message::Text(event)).await?;
            }
        }
        if let Some(finished) = stream.finished() {
            self.memory.remember(remembered, finished, self.app.settings.max_body_bytes);
        }
        Ok(())
    }

    /// Waits for `awaited`, and receives messages of the client meanwhile.
    async fn while_listening<T>(&mut self, awaited: impl Future<Output = T>) -> Result<T, ConnectionEnd> {
        let mut awaited = std::pin::pin!(awaited);
        loop {
            let received = tokio::select! {
                biased;
                value = &mut awaited => return Ok(value),
                received = receive(&mut self.socket) => received,
            };
            self.react_to(received).await?;
        }
    }

    async fn react_to(&mut self, received: Received) -> Result<(), ConnectionEnd> {
        match received {
            Received::Message(message) => {
                self.unanswered_pings = 0;
                self.accept(message).await
            }
            Received::Silence if self.unanswered_pings == MAX_UNANSWERED_PINGS => Err(ConnectionEnd::Gone),
            Received::Silence => {
                self.unanswered_pings += 1;
                self.send(Message::Ping(Bytes::new())).await
            }
            Received::Ended(end) => Err(end),
        }
    }

    async fn accept(&mut self, message: Message) -> Result<(), ConnectionEnd> {
        let limit = self.app.settings.max_body_bytes;
        match message {
            Message::Ping(_) | Message::Pong(_) => Ok(()),
            Message::Close(_) => {
                // Receiving once more sends the close frame that answers the client's.
                drop(tokio::time::timeout(CLOSE_TIMEOUT, self.socket.recv()).await);
                Err(ConnectionEnd::Gone)
            }
            Message::Binary(_) => {
                self.send_error(&ApiError::not_text()).await?;
                Err(ConnectionEnd::Close(close_code::UNSUPPORTED, "a message must be text"))
            }
            Message::Text(text) if text.len() > limit => {
                self.send_error(&ApiError::body_too_large(limit)).await?;
                Err(ConnectionEnd::Close(close_code::SIZE, "the message is too large"))
            }
            Message::Text(text) => {
                let bytes: usize = self.waiting.iter().map(|waiting| waiting.len()).sum();
                if self.waiting.len() == MAX_WAITING_MESSAGES || bytes + text.len() > limit {
                    return self.send_error(&ApiError::too_many_waiting(MAX_WAITING_MESSAGES)).await;
                }
                self.waiting.push_back(text);
                Ok(())
            }
        }
    }

    async fn send_error(&mut self, error: &ApiError) -> Result<(), ConnectionEnd> {
        self.send(Message::Text(error.event().into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), ConnectionEnd> {
        with_timeout(self.socket.send(message)).await
    }
}

/// What came from the client.
enum Received {
    Message(Message),
    /// No message came within the keep-alive time.
    Silence,
    Ended(ConnectionEnd),
}

/// Waits for a message, or until the keep-alive time is over. Cancel-safe.
async fn receive(socket: &mut WebSocket) -> Received {
    match tokio::time::timeout(KEEP_ALIVE, socket.recv()).await {
        Err(_) => Received::Silence,
        Ok(None) => Received::Ended(ConnectionEnd::Gone),
        Ok(Some(Err(error))) => Received::Ended(end_of(error)),
        Ok(Some(Ok(message))) => Received::Message(message),
    }
}

/// Authenticates a message and reads it as a request for a stream.
async fn read_message(
    app: Shared,
    caller: HeaderMap,
    message: Utf8Bytes,
) -> Result<(Principal, ResponsesRequest), ApiError> {
    let principal = auth::admit(&app, &caller).await?;
    let body = message.as_bytes();
    responses::check_message(body)?;
    let asked = read(&app, &principal, body).await?;
    Ok((principal, ResponsesRequest { stream: true, ..asked }))
}

async fn with_timeout(sent: impl Future<Output = Result<(), axum::Error>>) -> Result<(), ConnectionEnd> {
    match tokio::time::timeout(SEND_TIMEOUT, sent).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(ConnectionEnd::Gone),
    }
}

/// How the connection ends after a receive error. A client that broke the protocol gets a close frame.
fn end_of(error: axum::Error) -> ConnectionEnd {
    match error.into_inner().downcast_ref::<WebSocketError>() {
        Some(WebSocketError::Capacity(_)) => ConnectionEnd::Close(close_code::SIZE, "the message is too large"),
        Some(WebSocketError::Utf8(_)) => ConnectionEnd::Close(close_code::INVALID, "the message is not UTF-8"),
        Some(WebSocketError::Protocol(_)) => {
            ConnectionEnd::Close(close_code::PROTOCOL, "this is not the WebSocket protocol")
        }
        _ => ConnectionEnd::Gone,
    }
}

/// Sends a close frame and waits a little for the answer. Without the wait the client may lose the last messages.
async fn close(mut socket: WebSocket, code: CloseCode, why: &'static str) {
    let close_frame = Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(why) }));
    if with_timeout(socket.send(close_frame)).await.is_ok() {
        let answered = async { while let Some(Ok(_)) = socket.recv().await {} };
        drop(tokio::time::timeout(CLOSE_TIMEOUT, answered).await);
    }
}

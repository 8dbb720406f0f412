//! A WebSocket client for tests. It sends and receives JSON messages and interprets nothing.

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::{Client, PATIENCE};

/// An open WebSocket. Dropping it disconnects without a close frame.
#[derive(Debug)]
pub struct Socket {
    socket: WebSocketStream<TcpStream>,
}

/// The answer of a server that refused the upgrade.
#[derive(Debug)]
pub struct Refused {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Value,
}

/// What a WebSocket received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A message.
    Json(Value),
    /// A close frame with its code and reason.
    Closed(u16, String),
    /// The connection broke, or was closed without a code.
    Broken,
}

impl Client {
    /// Opens a WebSocket with the client's headers.
    pub async fn websocket(&self, path: &str) -> Result<Socket, Refused> {
        let address = self.base_url().trim_start_matches("http://");
        let mut request = format!("ws://{address}{path}").into_client_request().expect("an address");
        for (name, value) in self.headers() {
            let name = HeaderName::try_from(name).expect("a name");
            request.headers_mut().insert(name, HeaderValue::try_from(value).expect("a value"));
        }
        let stream = TcpStream::connect(address).await.expect("a connection");
        let opened = tokio::time::timeout(PATIENCE, client_async(request, stream)).await;
        match opened.expect("an answer in time") {
            Ok((socket, _)) => Ok(Socket { socket }),
            Err(Error::Http(answer)) => {
                let status = answer.status().as_u16();
                let body = answer.into_body().unwrap_or_default();
                Err(Refused { status, body: serde_json::from_slice(&body).unwrap_or_default() })
            }
            Err(error) => panic!("the upgrade failed: {error}"),
        }
    }
}

impl Socket {
    /// Sends a value as a text message.
    pub async fn send(&mut self, value: &Value) {
        self.send_text(&value.to_string()).await;
    }

    /// Sends any text message.
    pub async fn send_text(&mut self, text: &str) {
        self.send_message(Message::text(text)).await;
    }

    /// Sends a binary message.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.send_message(Message::binary(bytes.to_vec())).await;
    }

    async fn send_message(&mut self, message: Message) {
        let sent = tokio::time::timeout(PATIENCE, self.socket.send(message)).await;
        sent.expect("a server that reads").expect("an open connection");
    }

    /// The next thing that is received, except pings and pongs.
    pub async fn said(&mut self) -> Said {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("a message in time");
            match next {
                Some(Ok(Message::Text(text))) => {
                    return Said::Json(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}")));
                }
                Some(Ok(Message::Close(frame))) => {
                    let frame = frame.map(|frame| (frame.code.into(), frame.reason.to_string()));
                    return frame.map_or(Said::Broken, |(code, reason)| Said::Closed(code, reason));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(other)) => panic!("{other:?} is neither text nor control"),
                Some(Err(_)) | None => return Said::Broken,
            }
        }
    }

    /// The next message.
    pub async fn json(&mut self) -> Value {
        match self.said().await {
            Said::Json(value) => value,
            other => panic!("expected a message, received {other:?}"),
        }
    }

    /// The messages up to the one that ends a response, or up to an error.
    pub async fn turn(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let event = self.json().await;
            let kind = event["type"].as_str().unwrap_or_default();
            let ends = ["response.completed", "response.failed", "response.incomplete", "error"].contains(&kind);
            events.push(event);
            if ends {
                return events;
            }
        }
    }

    /// Sends a close frame and waits until the server has closed the connection.
    pub async fn close(mut self) {
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        self.socket.close(Some(frame)).await.expect("an open connection");
        while self.said().await != Said::Broken {}
    }
}

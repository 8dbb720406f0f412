//! A small HTTP client for tests. It sends JSON and reads JSON or events. It repeats and interprets nothing.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

use crate::PATIENCE;

/// A client of one server, with its API key and headers.
#[derive(Debug, Clone)]
pub struct Client {
    base_url: String,
    headers: Vec<(String, String)>,
    http: reqwest::Client,
}

impl Client {
    /// A client of `http://HOST:PORT`; paths are given with each request.
    pub fn new(base_url: impl Into<String>) -> Self {
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let http = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls).build().expect("a client");
        Self { base_url: base_url.into(), headers: Vec::new(), http }
    }

    /// The same client with an API key.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    /// The same client with a header on every request.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    pub(crate) fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// `GET`, waiting for the whole answer.
    pub async fn get(&self, path: &str) -> Answer {
        Answer::read(self.send(self.request(Method::GET, path)).await).await
    }

    /// `POST` of a JSON body, waiting for the whole answer.
    pub async fn post_json(&self, path: &str, body: &Value) -> Answer {
        self.post_bytes(path, body.to_string()).await
    }

    /// `POST` of any bytes as JSON, waiting for the whole answer.
    pub async fn post_bytes(&self, path: &str, body: impl Into<Bytes>) -> Answer {
        Answer::read(self.send(self.json(Method::POST, path, body.into())).await).await
    }

    /// Any method with a JSON body, waiting for the whole answer.
    pub async fn send_json(&self, method: &str, path: &str, body: &Value) -> Answer {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        Answer::read(self.send(self.json(method, path, body.to_string().into())).await).await
    }

    /// `DELETE`, waiting for the whole answer.
    pub async fn delete(&self, path: &str) -> Answer {
        Answer::read(self.send(self.request(Method::DELETE, path)).await).await
    }

    /// `POST` of a JSON body. Returns when the head of the answer has arrived. Dropping the stream disconnects.
    pub async fn post_stream(&self, path: &str, body: &Value) -> EventStream {
        EventStream::new(self.send(self.json(Method::POST, path, body.to_string().into())).await)
    }

    /// `GET` of an event stream.
    pub async fn get_stream(&self, path: &str) -> EventStream {
        EventStream::new(self.send(self.request(Method::GET, path)).await)
    }

    /// A request with the client's headers, which the test completes and sends.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base_url));
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value))
    }

    fn json(&self, method: Method, path: &str, body: Bytes) -> RequestBuilder {
        self.request(method, path).header("content-type", "application/json").body(body)
    }

    async fn send(&self, request: RequestBuilder) -> Response {
        let answer = tokio::time::timeout(PATIENCE, request.send()).await;
        answer.expect("an answer in time").expect("an answer")
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub bytes: Bytes,
}

impl Answer {
    /// Reads a response to its end.
    pub async fn read(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = tokio::time::timeout(PATIENCE, response.bytes()).await;
        Self { status, headers, bytes: bytes.expect("a body in time").expect("a body") }
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Checks the status and returns the body as JSON. A wrong status fails the test and shows the body.
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// `choices[0].message.content` of a chat completion.
    pub fn content(&self) -> String {
        self.expect(200)["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
    }
}

/// One server-sent event. If only a comment was sent, only `comment` is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The name, if one was sent.
    pub name: Option<String>,
    /// The id, if one was sent.
    pub id: Option<String>,
    /// The data lines, joined.
    pub data: String,
    /// The comment lines, joined.
    pub comment: String,
}

impl Event {
    /// The data as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error} in {:?}", self.data))
    }

    fn parse(block: &str) -> Self {
        let mut event = Self::default();
        let mut data = Vec::new();
        let mut comments = Vec::new();
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" => comments.push(value),
                "event" => event.name = Some(value.to_owned()),
                "id" => event.id = Some(value.to_owned()),
                "data" => data.push(value),
                _ => {}
            }
        }
        event.data = data.join("\n");
        event.comment = comments.join("\n");
        event
    }
}

/// An open event stream.
#[derive(Debug)]
pub struct EventStream {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    response: Response,
    buffer: BytesMut,
    broken: bool,
}

impl EventStream {
    fn new(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Self { status, headers, response, buffer: BytesMut::new(), broken: false }
    }

    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The next event. `None` if the stream has ended or broken. Not cancel-safe.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block = self.buffer.split_to(end + 2);
                return Some(Event::parse(&String::from_utf8_lossy(&block)));
            }
            match tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("an event in time") {
                Ok(Some(bytes)) => self.buffer.extend_from_slice(&bytes),
                Ok(None) => return None,
                Err(_) => {
                    self.broken = true;
                    return None;
                }
            }
        }
    }

    /// Whether the connection broke before the end of the stream.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// All events that are left.
    pub async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }

    /// The JSON chunks that are left, without comments and `[DONE]`.
    pub async fn chunks(&mut self) -> Vec<Value> {
        let events = self.rest().await;
        let data = events.iter().filter(|event| !event.data.is_empty() && event.data != "[DONE]");
        data.map(Event::json).collect()
    }

    /// The text of the chat chunks that are left.
    pub async fn text(&mut self) -> String {
        self.chunks().await.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
    }

    /// Reads the body to its end, for an answer that is not a stream.
    pub async fn into_answer(self) -> Answer {
        Answer::read(self.response).await
    }
}

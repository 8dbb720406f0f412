//! Helpers of all tests: a gateway with a scripted model server, and short ways to use both.

use herma_testkit::{Answer, Client, Herma, Launch, ScriptedUpstream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const SESSION_ID: &str = "x-hermes-session-id";
pub(crate) const CONVERSATION_ID: &str = "x-hermes-conversation-id";
pub(crate) const SESSION_KEY: &str = "x-hermes-session-key";

/// A gateway, its model server, and a data directory that outlives the process.
pub(crate) struct TestGateway {
    pub(crate) herma: Herma,
    pub(crate) upstream: ScriptedUpstream,
    data: TempDir,
    settings: Vec<(String, String)>,
}

impl TestGateway {
    /// Starts a gateway with an empty data directory.
    pub(crate) async fn start() -> Self {
        Self::with_settings(&[]).await
    }

    /// Like `start`, with environment variables that restarts keep.
    pub(crate) async fn with_settings(settings: &[(&str, &str)]) -> Self {
        let upstream = ScriptedUpstream::start().await;
        let data = TempDir::new().expect("a temporary directory");
        let settings: Vec<_> = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let herma = launch(&upstream, &data, &settings).start().await;
        Self { herma, upstream, data, settings }
    }

    /// Leaves an environment variable out at the next start.
    pub(crate) fn forget_setting(&mut self, name: &str) {
        self.settings.retain(|(known, _)| known != name);
    }

    /// Kills the gateway and starts it again on the same data.
    pub(crate) async fn restart(&mut self) {
        self.herma.kill();
        self.herma = launch(&self.upstream, &self.data, &self.settings).start().await;
    }

    /// A client with the gateway's key.
    pub(crate) fn client(&self) -> Client {
        self.herma.client()
    }

    /// A client with the header that names a session.
    pub(crate) fn in_session(&self, id: &str) -> Client {
        self.client().header(SESSION_ID, id)
    }

    /// Sends one new message to a session.
    pub(crate) async fn say(&self, session: &str, text: &str) -> Answer {
        self.in_session(session).post_json(CHAT, &chat(&[user(text)])).await
    }

    /// All messages of a conversation, as rows.
    pub(crate) async fn rows(&self, alias: &str) -> Vec<Value> {
        data(&self.client().get(&format!("/api/sessions/{alias}/messages")).await)
    }

    /// All messages of a conversation, as lines.
    pub(crate) async fn transcript(&self, alias: &str) -> Vec<String> {
        lines(&self.rows(alias).await)
    }

    /// The model view of a conversation, as lines.
    pub(crate) async fn model_view(&self, alias: &str) -> Vec<String> {
        lines(&data(&self.client().get(&format!("/api/sessions/{alias}/messages?view=model")).await))
    }

    /// The last context that the model server got, as lines.
    pub(crate) fn context(&self) -> Vec<String> {
        lines(self.upstream.last_request().messages())
    }

    /// All conversations.
    pub(crate) async fn sessions(&self) -> Vec<Value> {
        data(&self.client().get("/api/sessions").await)
    }

    /// Sends exactly these bytes and reads until the gateway closes the connection.
    pub(crate) async fn raw(&self, request: &[u8]) -> Raw {
        let address = self.herma.base_url().trim_start_matches("http://");
        let (mut reading, mut writing) = TcpStream::connect(address).await.expect("a connection").into_split();
        let request = request.to_vec();
        // A gateway that refuses early need not read to the end.
        let sent = tokio::spawn(async move {
            drop(writing.write_all(&request).await);
            writing
        });
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(herma_testkit::PATIENCE, reading.read_to_end(&mut bytes)).await;
        drop(read.expect("an answer in time"));
        sent.abort();
        Raw::parse(&String::from_utf8_lossy(&bytes))
    }

    /// Sends a chat request as these bytes, closes the connection, and waits until the gateway has noticed.
    pub(crate) async fn hang_up_after(&self, headers: &[u8], body: &[u8]) {
        let address = self.herma.base_url().trim_start_matches("http://");
        let mut socket = TcpStream::connect(address).await.expect("a connection");
        socket.write_all(&chat_request(headers, body)).await.expect("a gateway that reads");
        socket.shutdown().await.expect("an open socket");
        drop(tokio::time::timeout(herma_testkit::PATIENCE, socket.read_to_end(&mut Vec::new())).await.expect("an end"));
    }

    /// Sends a chat request with these extra header bytes and this body.
    pub(crate) async fn raw_chat(&self, headers: &[u8], body: &[u8]) -> Raw {
        self.raw(&chat_request(headers, body)).await
    }
}

fn chat_request(headers: &[u8], body: &[u8]) -> Vec<u8> {
    let usual =
        "POST /v1/chat/completions HTTP/1.1\r\nhost: herma\r\nconnection: close\r\nauthorization: Bearer test-key\r\n";
    [usual.as_bytes(), headers, b"\r\n", body].concat()
}

fn launch(upstream: &ScriptedUpstream, data: &TempDir, settings: &[(String, String)]) -> Launch {
    let launch = Launch::serve(env!("CARGO_BIN_EXE_herma")).data(data.path()).upstream(&upstream.base_url());
    settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value))
}

/// An answer read from a socket.
pub(crate) struct Raw {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Raw {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Self { status: status.unwrap_or_else(|| panic!("no answer in {text:?}")), body: body.to_owned() }
    }

    /// The error in the body. Checks its status and form.
    pub(crate) fn error(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        error_in(&serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body)))
    }
}

/// The error of an answer. Checks its status and that it has exactly the four fields.
pub(crate) fn error(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.header("content-type"), Some("application/json"), "{}", answer.text());
    error_in(&answer.expect(status))
}

/// The error in a body or a frame. Checks that it has exactly the four fields.
pub(crate) fn error_in(body: &Value) -> Value {
    assert_eq!(names(body), ["error"], "{body}");
    let error = &body["error"];
    assert_eq!(names(error), ["message", "type", "param", "code"], "{error}");
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    assert!(error["type"].is_string() && error["code"].is_string(), "{error}");
    assert!(error["param"].is_string() || error["param"].is_null(), "{error}");
    error.clone()
}

fn names(object: &Value) -> Vec<&str> {
    object.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// The rows of a list.
pub(crate) fn data(list: &Answer) -> Vec<Value> {
    list.expect(200)["data"].as_array().expect("a list").clone()
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

pub(crate) fn system(text: &str) -> Value {
    json!({"role": "system", "content": text})
}

pub(crate) fn result(call: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": call, "content": text})
}

/// The body of a chat request.
pub(crate) fn chat(messages: &[Value]) -> Value {
    json!({"model": "scripted", "messages": messages})
}

/// Makes a request streamed.
pub(crate) fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}

/// Sets a field of a request.
pub(crate) fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

/// Messages as lines: role, whether partial, tool calls, content.
pub(crate) fn lines(messages: &[Value]) -> Vec<String> {
    messages.iter().map(line).collect()
}

fn line(message: &Value) -> String {
    let mut line = message["role"].as_str().unwrap_or("?").to_owned();
    if message["status"] == "partial" {
        line.push_str(" (partial)");
    }
    if let Some(call) = message["tool_call_id"].as_str() {
        line.push_str(&format!(" {call}"));
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let function = &call["function"];
        line.push_str(&format!(" {}={}({})", text(&call["id"]), text(&function["name"]), text(&function["arguments"])));
    }
    match &message["content"] {
        Value::String(text) => format!("{line}: {text}"),
        Value::Null => line,
        other => format!("{line}: {other}"),
    }
}

/// The note in place of an answer, after a turn without output.
pub(crate) const NO_REPLY: &str = "assistant: [No reply was given: the model server failed.]";

/// The partial answer with its note, after a turn that failed with this output.
pub(crate) fn shown_then_failed(text: &str) -> String {
    format!("assistant: {text}\n\n[The reply ends here: the model server failed.]")
}

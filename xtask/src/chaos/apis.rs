//! The APIs through which clients send turns, and how they read the answers.

use std::time::Duration;

use herma_testkit::Client;
use reqwest::Method;
use serde_json::{Value, json};

use super::history::End;

/// The header that names a session.
pub(super) const SESSION: &str = "x-hermes-session-id";

/// An API, and whether the answer is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Chat { is_streamed: bool },
    Response { is_streamed: bool },
    Run,
}

/// How a request names its conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// A name or an id, in the session header or in the body.
    Name(String),
    /// The id of the last response that the client knows.
    Previous(String),
}

/// A request. Retries send it unchanged.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) api: Api,
    pub(super) address: Address,
    /// Earlier questions and answers that the client sends too; only with chat.
    pub(super) history: Vec<(String, String)>,
    pub(super) text: String,
}

/// When a client hangs up before the end of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HangUp {
    /// After this time.
    After(Duration),
    /// At the first bytes of the answer. The server may have sent the end already.
    AtFirstBytes,
}

/// What a client saw of one request.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestResult {
    pub(super) end: Option<End>,
    /// The id of the response or the run.
    pub(super) object: Option<String>,
    /// The ids that the client got, with their conversations.
    pub(super) ids: Vec<(String, String)>,
    /// Whether the turn is in the thread's first conversation, not in a branch.
    pub(super) is_main: bool,
    /// Whether the error says that a retry is useless.
    pub(super) is_final: bool,
}

impl Request {
    /// Sends the request once and reads the answer for at most `patience`.
    pub(super) async fn send(&self, client: &Client, patience: Duration, hang_up: Option<HangUp>) -> RequestResult {
        let patience = if let Some(HangUp::After(after)) = hang_up { after } else { patience };
        let mut read = Read { hangs_up: hang_up == Some(HangUp::AtFirstBytes), ..Read::default() };
        let done = tokio::time::timeout(patience, self.read_all(client, &mut read)).await;
        let is_whole = matches!(done, Ok(Ok(()))) && !read.hangs_up;
        let mut seen = if is_whole || read.is_stream { self.interpret(&read) } else { RequestResult::default() };
        if seen.end.is_none() {
            let shown = if read.is_stream { shown(&frames(&read.text())) } else { String::new() };
            let gave_up = done.is_err() || (read.hangs_up && matches!(done, Ok(Ok(()))));
            seen.end = Some(if gave_up { End::GaveUp { shown } } else { End::Broken { shown } });
            seen.object = seen.object.or(read.run);
        }
        seen
    }

    async fn read_all(&self, client: &Client, read: &mut Read) -> Result<(), reqwest::Error> {
        let (path, body) = self.body();
        let mut request = client.request(Method::POST, path).header("content-type", "application/json");
        if let (Api::Chat { .. }, Address::Name(name)) = (self.api, &self.address) {
            request = request.header(SESSION, name);
        }
        read.take(request.body(body.to_string()).send().await?).await?;
        // The request returns before the run has ended, so the client polls it.
        while self.api == Api::Run && !read.hangs_up && read.status < 300 && is_running(&read.json()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let id = text(&read.json()["id"]);
            let run = format!("/v1/runs/{id}");
            read.run = Some(id);
            read.take(client.request(Method::GET, &run).send().await?).await?;
        }
        Ok(())
    }

    fn body(&self) -> (&'static str, Value) {
        match self.api {
            Api::Chat { is_streamed } => {
                let pair = |(question, answer): &(String, String)| {
                    [json!({"role": "user", "content": question}), json!({"role": "assistant", "content": answer})]
                };
                let mut messages: Vec<Value> = self.history.iter().flat_map(pair).collect();
                messages.push(json!({"role": "user", "content": self.text}));
                ("/v1/chat/completions", json!({"model": "m", "messages": messages, "stream": is_streamed}))
            }
            Api::Response { is_streamed } => {
                let mut body = json!({"model": "m", "input": self.text, "stream": is_streamed});
                match &self.address {
                    Address::Name(name) => body["conversation"] = json!(name),
                    Address::Previous(id) => body["previous_response_id"] = json!(id),
                }
                ("/v1/responses", body)
            }
            Api::Run => {
                let (Address::Name(name) | Address::Previous(name)) = &self.address;
                ("/v1/runs", json!({"model": "m", "input": self.text, "session_id": name}))
            }
        }
    }

    /// Interprets what was read. `end` is `None` if the answer is not complete.
    fn interpret(&self, read: &Read) -> RequestResult {
        if !read.is_stream {
            return self.interpret_object(read.status, &read.json(), read.is_final);
        }
        let frames = frames(&read.text());
        let shown = shown(&frames);
        let failed = frames.iter().find_map(|frame| (!frame["error"].is_null()).then_some(&frame["error"]));
        if let Some(error) = failed {
            let end = Some(End::Failed { status: read.status, code: text(&error["code"]), shown });
            return RequestResult { end, is_final: read.is_final, ..RequestResult::default() };
        }
        if matches!(self.api, Api::Chat { .. }) {
            let last = frames.iter().find(|frame| !frame["choices"][0]["finish_reason"].is_null());
            let session = last.map(|frame| &frame["session"]);
            let end = session.map(|session| End::Answered { text: shown, conversation: conversation(session) });
            let is_main = session.is_some_and(is_main);
            return RequestResult {
                end,
                is_main,
                ids: session.map(ids).unwrap_or_default(),
                ..RequestResult::default()
            };
        }
        let ends = ["response.completed", "response.failed", "response.incomplete"];
        let created = frames.iter().find(|frame| frame["type"] == "response.created");
        let mut seen = match frames.iter().find(|frame| ends.contains(&text(&frame["type"]).as_str())) {
            Some(last) => self.interpret_object(read.status, &last["response"], false),
            None => RequestResult::default(),
        };
        if let Some(End::Failed { shown: of, .. }) = &mut seen.end {
            *of = shown;
        }
        if let Some(created) = created {
            seen.object = Some(text(&created["response"]["id"]));
        }
        seen
    }

    fn interpret_object(&self, status: u16, object: &Value, is_final: bool) -> RequestResult {
        let session = &object["session"];
        let mut seen =
            RequestResult { is_final, is_main: is_main(session), ids: ids(session), ..RequestResult::default() };
        if !matches!(self.api, Api::Chat { .. }) && object["id"].is_string() {
            seen.object = Some(text(&object["id"]));
            seen.ids.push((text(&object["id"]), conversation(&object["session"])));
        }
        let is_completed = object["status"].as_str().is_none_or(|status| status == "completed");
        seen.end = Some(if status < 300 && is_completed {
            End::Answered { text: answer_of(self.api, object), conversation: conversation(&object["session"]) }
        } else {
            let code = [&object["error"]["code"], &object["error_code"], &object["status"]];
            let code = code.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned();
            End::Failed { status, code, shown: String::new() }
        });
        seen
    }
}

/// The text of a completed object.
pub(super) fn answer_of(api: Api, object: &Value) -> String {
    match api {
        Api::Chat { .. } => text(&object["choices"][0]["message"]["content"]),
        Api::Response { .. } => {
            let items = object["output"].as_array().into_iter().flatten();
            items.filter(|item| item["type"] == "message").map(|item| text(&item["content"][0]["text"])).collect()
        }
        Api::Run => text(&object["output"]),
    }
}

/// Whether a run has not ended.
pub(super) fn is_running(run: &Value) -> bool {
    !["completed", "failed", "cancelled", "interrupted"].contains(&run["status"].as_str().unwrap_or_default())
}

/// The part of an answer that was read.
#[derive(Debug, Default)]
struct Read {
    status: u16,
    is_stream: bool,
    is_final: bool,
    bytes: Vec<u8>,
    /// The run that is polled.
    run: Option<String>,
    /// Stop reading after the first bytes.
    hangs_up: bool,
}

impl Read {
    async fn take(&mut self, mut response: reqwest::Response) -> Result<(), reqwest::Error> {
        let header =
            |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (is_stream, is_final) =
            (header("content-type").starts_with("text/event-stream"), header("x-should-retry") == "false");
        (self.status, self.is_stream, self.is_final) = (response.status().as_u16(), is_stream, is_final);
        self.bytes.clear();
        if self.hangs_up && !is_stream {
            return Ok(());
        }
        while let Some(chunk) = response.chunk().await? {
            self.bytes.extend_from_slice(&chunk);
            if self.hangs_up {
                break;
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }
}

/// The JSON of every complete event of a stream.
fn frames(text: &str) -> Vec<Value> {
    let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
    let data = whole.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// The answer text in the events of a stream.
fn shown(frames: &[Value]) -> String {
    let piece = |frame: &Value| match frame["type"].as_str() {
        Some("response.output_text.delta") => text(&frame["delta"]),
        _ => text(&frame["choices"][0]["delta"]["content"]),
    };
    frames.iter().map(piece).collect()
}

fn ids(session: &Value) -> Vec<(String, String)> {
    let names = [&session["session_id"], &session["conversation_id"]];
    names.into_iter().filter_map(Value::as_str).map(|id| (id.to_owned(), conversation(session))).collect()
}

fn is_main(session: &Value) -> bool {
    session["provenance"]["origin_kind"] == "main"
}

fn conversation(session: &Value) -> String {
    text(&session["conversation_id"])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

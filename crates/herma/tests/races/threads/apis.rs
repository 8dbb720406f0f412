//! Sends a turn through each API and reads what the client receives.

use herma_testkit::Client;
use serde_json::{Value, json};

use super::reference::Address;
use super::steps::Api;
use crate::support::{CHAT, named, until};

pub(super) const RESPONSES: &str = "/v1/responses";
pub(super) const RUNS: &str = "/v1/runs";

/// What a client received for a turn.
#[derive(Debug, Clone, Default)]
pub(super) struct TurnResult {
    /// HTTP status. `None` if the process died before it answered.
    pub(super) status: Option<u16>,
    /// The id of the response or of the run.
    pub(super) id: Option<String>,
    /// The `session` object.
    pub(super) session: Value,
    /// The whole answer, if the turn was completed.
    pub(super) text: Option<String>,
    /// The error object, if there is no answer.
    pub(super) error: Value,
    /// The data of all events, if the stream reached its end.
    pub(super) frames: Option<Vec<String>>,
}

/// A turn to send.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) address: Address,
    pub(super) api: Api,
    pub(super) text: String,
    pub(super) stored: bool,
}

impl Question {
    /// Sends the request and waits for the end of the turn.
    pub(super) async fn ask(self, client: Client) -> TurnResult {
        let Some(begun) = self.send(&client).await else { return TurnResult::default() };
        match self.api {
            Api::Background | Api::Run if begun.error.is_null() => ended(&client, self.api, begun).await,
            _ => begun,
        }
    }

    /// Sends the request. Does not wait for a background response or a run to end. `None` if the process died.
    pub(super) async fn send(&self, client: &Client) -> Option<TurnResult> {
        let (client, path, body) = self.request(client.clone());
        let request = client.request("POST".parse().unwrap(), path).header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.ok()?;
        let status = response.status().as_u16();
        let text = response.text().await.ok()?;
        Some(match self.api {
            Api::StreamedResponse if status == 200 => TurnResult::of_response_stream(&text)?,
            Api::StreamedChat if status == 200 => TurnResult::of_chat_stream(&text)?,
            api => TurnResult::of_object(api, status, &serde_json::from_str(&text).unwrap()),
        })
    }

    fn request(&self, client: Client) -> (Client, &'static str, Value) {
        let (mut body, path) = match self.api {
            Api::Chat => (json!({"model": "m", "messages": [{"role": "user", "content": self.text}]}), CHAT),
            Api::StreamedChat => {
                let messages = json!([{"role": "user", "content": self.text}]);
                (json!({"model": "m", "messages": messages, "stream": true}), CHAT)
            }
            Api::Run => (json!({"model": "m", "input": self.text}), RUNS),
            api => {
                let (streamed, background) = (api == Api::StreamedResponse, api == Api::Background);
                let body = json!({"model": "m", "input": self.text, "stream": streamed, "background": background,
                    "store": self.stored});
                (body, RESPONSES)
            }
        };
        let in_header = matches!(self.api, Api::Chat | Api::StreamedChat);
        let client = match &self.address {
            Address::Conversation(id) if in_header => named(client, id),
            Address::Conversation(id) => {
                body["conversation"] = json!(id);
                client
            }
            Address::Session(id) => named(client, id),
            Address::Previous(id) => {
                body["previous_response_id"] = json!(id);
                client
            }
            Address::Nothing => client,
        };
        (client, path, body)
    }
}

/// Polls a background response or a run until it has ended.
pub(super) async fn ended(client: &Client, api: Api, begun: TurnResult) -> TurnResult {
    let path = path(api, begun.id.as_deref().expect("an id"));
    let mut last = Value::Null;
    until("it comes to an end", async || {
        last = client.get(&path).await.expect(200);
        !["queued", "in_progress", "running"].contains(&last["status"].as_str().unwrap())
    })
    .await;
    TurnResult::of_object(api, 200, &last)
}

pub(super) fn path(api: Api, id: &str) -> String {
    format!("{}/{id}", if api == Api::Run { RUNS } else { RESPONSES })
}

impl TurnResult {
    fn of_object(api: Api, status: u16, body: &Value) -> Self {
        let text = match api {
            Api::Chat | Api::StreamedChat => body["choices"][0]["message"]["content"].as_str().map(str::to_owned),
            Api::Run => body["output"].as_str().map(str::to_owned),
            _ => text_of(body),
        };
        let error = match &body["error"] {
            Value::String(message) => json!({"message": message, "code": body["error_code"]}),
            error => error.clone(),
        };
        let is_completed = body["status"].as_str().is_none_or(|status| status == "completed");
        Self {
            status: Some(status),
            id: body["id"].as_str().map(str::to_owned),
            session: body["session"].clone(),
            text: text.filter(|_| is_completed),
            error,
            frames: None,
        }
    }

    /// `None` if the stream broke off.
    fn of_response_stream(text: &str) -> Option<Self> {
        let frames = frames(text);
        let events = frames.iter().filter_map(|frame| serde_json::from_str::<Value>(frame).ok());
        let ends = ["response.completed", "response.failed"];
        let last = events.into_iter().find(|event| ends.contains(&event["type"].as_str().unwrap_or_default()))?;
        let seen = Self::of_object(Api::Response, 200, &last["response"]);
        Some(Self { frames: Some(frames), ..seen })
    }

    fn of_chat_stream(text: &str) -> Option<Self> {
        let chunks: Vec<Value> = frames(text).iter().filter_map(|frame| serde_json::from_str(frame).ok()).collect();
        let shown: String =
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        if let Some(failed) = chunks.iter().find(|chunk| !chunk["error"].is_null()) {
            return Some(Self { status: Some(200), error: failed["error"].clone(), ..Self::default() });
        }
        let last = chunks.iter().find(|chunk| !chunk["choices"][0]["finish_reason"].is_null())?;
        Some(Self { status: Some(200), session: last["session"].clone(), text: Some(shown), ..Self::default() })
    }

    pub(super) fn code(&self) -> &str {
        self.error["code"].as_str().unwrap_or_default()
    }
}

/// The data of a stream's events.
fn frames(text: &str) -> Vec<String> {
    let lines = text.split("\n\n").flat_map(str::lines);
    lines.filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
}

/// The text of the first message in a response's output.
pub(super) fn text_of(response: &Value) -> Option<String> {
    let message = response["output"].as_array()?.iter().find(|item| item["type"] == "message")?;
    message["content"][0]["text"].as_str().map(str::to_owned)
}

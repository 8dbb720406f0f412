//! Clients that know nothing of sessions: they send their whole history, and Herma finds their conversation.

mod alike;
mod by_client;
mod chats;
mod helpers;
mod histories;
mod items;
mod random;

use herma_testkit::{Answer, Reply};
use serde_json::{Value, json};

use crate::support::{CHAT, TestGateway, assistant, chat, user};

const RESPONSES: &str = "/v1/responses";
const OPEN_WEBUI: &str = "x-openwebui-chat-id";

/// A client that keeps its own history and sends all of it every time.
#[derive(Clone, Default)]
struct Thread {
    history: Vec<Value>,
    headers: Vec<(&'static str, String)>,
}

impl Thread {
    /// A thread of a front end's chat.
    fn of_chat(id: &str) -> Self {
        Self { headers: vec![(OPEN_WEBUI, id.to_owned())], ..Self::default() }
    }

    /// Says something and is answered. Returns the answer's body.
    async fn say(&mut self, gateway: &TestGateway, text: &str, answer: &str) -> Value {
        self.history.push(user(text));
        self.ask(gateway, answer).await
    }

    /// Sends the history as it is and is answered.
    async fn ask(&mut self, gateway: &TestGateway, answer: &str) -> Value {
        gateway.upstream.push(Reply::text(answer));
        let body = self.send(gateway).await.expect(200);
        self.history.push(assistant(answer));
        body
    }

    async fn send(&self, gateway: &TestGateway) -> Answer {
        let headers = self.headers.iter();
        let client = headers.fold(gateway.client(), |client, (name, value)| client.header(name, value));
        client.post_json(CHAT, &chat(&self.history)).await
    }
}

/// The conversation and the resolution of an answer.
fn session(body: &Value) -> (String, &str) {
    let session = &body["session"];
    (session["conversation_id"].as_str().unwrap().to_owned(), session["resolution"].as_str().unwrap())
}

/// The kinds of all conversations, in order.
async fn kinds(gateway: &TestGateway) -> Vec<String> {
    let rows = gateway.sessions().await;
    let mut kinds: Vec<String> = rows.iter().map(|row| row["origin_kind"].as_str().unwrap().to_owned()).collect();
    kinds.sort();
    kinds
}

/// A message as an item of a response's input.
fn item(role: &str, text: &str) -> Value {
    json!({"type": "message", "role": role, "content": text})
}

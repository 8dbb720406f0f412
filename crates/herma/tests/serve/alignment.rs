//! Clients send only the new message, the whole history, or a part of it. In each case the model gets the same
//! context, and the same messages are stored.

use herma_testkit::{Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::{CHAT, TestGateway, assistant, chat, error, lines, result, streamed, system, user};

/// What part of the history a client sends, and in what form.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Client {
    /// Only the new message.
    Delta,
    /// The whole history, with answers as received.
    Whole,
    /// The whole history, with answers as the Python SDK serialises them: every field, most of them null.
    Dumps,
    /// The whole history, with content as parts.
    Parts,
    /// The last four messages.
    Cuts,
    /// The whole history without failed turns.
    Forgets,
}

const CLIENTS: [Client; 6] =
    [Client::Delta, Client::Whole, Client::Dumps, Client::Parts, Client::Cuts, Client::Forgets];

/// One step of a story.
#[derive(Debug, Clone)]
enum Step {
    /// The client sends this message, and the model server replies like that.
    Say(Value, Reply),
    /// The same, streamed.
    Stream(Value, Reply),
    /// The gateway is killed and started again.
    Restart,
}

/// Plays a story with a client. Returns the messages of every model request, and the stored rows.
async fn play(client: Client, story: &[Step]) -> (Vec<Value>, Vec<Value>) {
    let mut gateway = TestGateway::start().await;
    let mut history: Vec<Value> = Vec::new();
    for step in story {
        let (said, reply, streaming) = match step {
            Step::Restart => {
                gateway.restart().await;
                continue;
            }
            Step::Say(said, reply) => (said, reply, false),
            Step::Stream(said, reply) => (said, reply, true),
        };
        gateway.upstream.push(reply.clone());
        let mut sent = client.history_to_send(&history);
        // A client that repeats a failed message sends it once.
        if history.last() != Some(said) || client == Client::Delta {
            sent.push(client.encoded(said));
        }
        let body = chat(&sent);
        if history.last() != Some(said) {
            history.push(said.clone());
        }
        history.extend(send_and_read(&gateway, body, streaming).await);
        if client == Client::Forgets && !history.last().is_some_and(|last| last["finished"] == true) {
            history.truncate(history.iter().rposition(|it| it["finished"] == true).map_or(0, |at| at + 1));
        }
    }
    let requests = gateway.upstream.requests().iter().map(|request| request.body["messages"].clone()).collect();
    let rows = gateway.rows("s").await.into_iter().map(stable).collect();
    (requests, rows)
}

/// Sends a request and returns the answer that the client then has. `finished` is true if the answer is complete.
async fn send_and_read(gateway: &TestGateway, body: Value, streaming: bool) -> Option<Value> {
    if !streaming {
        let answer = gateway.in_session("s").post_json(CHAT, &body).await;
        if answer.status != 200 {
            return None;
        }
        let mut message = answer.expect(200)["choices"][0]["message"].clone();
        message["finished"] = json!(true);
        return Some(message);
    }
    let chunks = gateway.in_session("s").post_stream(CHAT, &streamed(body)).await.chunks().await;
    let choices = || chunks.iter().map(|chunk| &chunk["choices"][0]);
    let text: String = choices().filter_map(|choice| choice["delta"]["content"].as_str()).collect();
    let mut message = assistant(&text);
    message["finished"] = json!(choices().any(|choice| choice["finish_reason"].is_string()));
    (!text.is_empty()).then_some(message)
}

impl Client {
    fn history_to_send(self, history: &[Value]) -> Vec<Value> {
        let from = match self {
            Self::Delta => history.len(),
            Self::Cuts => history.len().saturating_sub(4),
            Self::Whole | Self::Dumps | Self::Parts | Self::Forgets => 0,
        };
        history[from..].iter().map(|message| self.encoded(message)).collect()
    }

    fn encoded(self, message: &Value) -> Value {
        let mut message = message.clone();
        let fields = message.as_object_mut().expect("an object");
        fields.remove("finished");
        if fields["role"] == "assistant" && self == Self::Dumps {
            for name in ["refusal", "audio", "function_call", "annotations", "reasoning", "tool_calls", "name"] {
                fields.entry(name).or_insert(Value::Null);
            }
            fields.insert("annotations".to_owned(), json!([]));
        }
        if self == Self::Parts && fields["role"] == "assistant" && fields["content"].is_string() {
            let (front, back) = fields["content"].as_str().expect("text").split_at(3);
            let parts = json!([{"type": "text", "text": front}, {"text": back, "type": "text"}]);
            fields.insert("content".to_owned(), parts);
        }
        message
    }
}

/// A message row without fields that differ between runs.
fn stable(mut row: Value) -> Value {
    row.as_object_mut().expect("an object").retain(|name, _| !matches!(name.as_str(), "id" | "turn_id" | "created_at"));
    row
}

async fn all_clients_agree(story: &[Step]) -> (Vec<Value>, Vec<Value>) {
    let expected = play(Client::Delta, story).await;
    for client in CLIENTS {
        let (requests, rows) = play(client, story).await;
        assert_eq!(requests, expected.0, "{client:?} reaches the model with another context");
        assert_eq!(rows, expected.1, "{client:?} leaves another transcript");
    }
    expected
}

fn say(text: &str) -> Step {
    Step::Say(user(text), Reply::text(format!("I hear {text}")))
}

#[tokio::test]
async fn talk_and_restarts() {
    let story =
        [say("one"), say("two"), Step::Restart, say("three"), say("two"), Step::Restart, say("two"), say("six")];
    let (requests, rows) = all_clients_agree(&story).await;
    assert_eq!((requests.last().expect("a request").as_array().map(Vec::len), rows.len()), (Some(11), 12));
}

#[tokio::test]
async fn the_same_thing_said_over_and_over() {
    let again = Step::Say(user("yes"), Reply::text("yes"));
    let (_, rows) = all_clients_agree(&[again.clone(), again.clone(), again.clone(), Step::Restart, again]).await;
    assert_eq!(rows.len(), 8);
}

#[tokio::test]
async fn tool_calls_and_their_results() {
    let call = |id: &str| Reply::tool_calls([ToolCall::new(id, "look", "{\"q\": 1}")]);
    let story = [
        Step::Say(user("look around"), call("a")),
        Step::Say(result("a", "a tree"), call("b")),
        Step::Restart,
        Step::Say(result("b", "a house"), Reply::text("There is a tree and a house.")),
        Step::Say(user("look again"), call("c")),
        Step::Say(user("never mind"), Reply::text("All right.")),
        say("bye"),
    ];
    let (requests, _) = all_clients_agree(&story).await;
    let last = lines(requests.last().and_then(Value::as_array).expect("a request"));
    assert_eq!(last[7..9], [r#"assistant c=look({"q": 1})"#, "tool c: [This call was not executed.]"]);
}

#[tokio::test]
async fn failures_that_the_person_leaves_behind() {
    let story = [
        say("one"),
        Step::Say(user("broken"), Reply::status(400, "no")),
        say("two"),
        Step::Stream(user("half"), Reply::cut_off_after(2)),
        Step::Restart,
        say("three"),
        Step::Stream(user("four"), Reply::text("I hear four")),
        Step::Say(user("broken"), Reply::status(400, "no")),
        Step::Restart,
        Step::Say(user("broken too"), Reply::status(400, "no")),
        say("five"),
        say("six"),
    ];
    let (requests, _) = all_clients_agree(&story).await;
    for request in &requests {
        let roles: Vec<&str> =
            request.as_array().expect("messages").iter().filter_map(|it| it["role"].as_str()).collect();
        assert!(roles.windows(2).all(|pair| pair != ["user", "user"]), "{request}");
    }
}

#[tokio::test]
async fn failures_that_the_client_tries_again() {
    let broken = |reply: Reply| Step::Say(user("hard"), reply);
    let story = [
        say("one"),
        broken(Reply::status(400, "no")),
        broken(Reply::status(400, "no")),
        Step::Restart,
        broken(Reply::text("At last.")),
        say("two"),
    ];
    let (_, rows) = all_clients_agree(&story).await;
    assert_eq!(lines(&rows)[2..4], ["user: hard", "assistant: At last."]);
}

#[tokio::test]
async fn a_client_that_changes_its_ways_is_understood() {
    let gateway = TestGateway::start().await;
    let send = async |messages: &[Value]| {
        gateway.in_session("s").post_json(CHAT, &chat(messages)).await.expect(200);
        gateway.context()
    };
    send(&[user("one")]).await;
    send(&[user("one"), assistant("reply to: one"), user("two")]).await;
    send(&[user("three")]).await;
    send(&[assistant("  reply to: three\r\n"), user("four")]).await;
    let context = send(&[user("my summary of it all"), assistant("I see."), user("five")]).await;
    let said =
        ["one", "two", "three", "four"].map(|text| [format!("user: {text}"), format!("assistant: reply to: {text}")]);
    let expected: Vec<String> = said.into_iter().flatten().chain(["user: five".to_owned()]).collect();
    assert_eq!(context, expected);
}

#[tokio::test]
async fn a_new_conversation_takes_a_history_from_elsewhere_as_it_is() {
    let gateway = TestGateway::start().await;
    let dumped =
        json!({"role": "assistant", "content": "b", "refusal": null, "function_call": null, "tool_calls": null});
    let messages = [system("Be brief."), user("a"), dumped, user("c")];
    gateway.in_session("s").post_json(CHAT, &chat(&messages)).await.expect(200);
    assert_eq!(gateway.upstream.last_request().messages(), [system("Be brief."), user("a"), assistant("b"), user("c")]);
    assert_eq!(gateway.transcript("s").await, ["user: a", "assistant: b", "user: c", "assistant: reply to: c"]);
}

#[tokio::test]
async fn a_request_that_adds_nothing_is_refused() {
    let gateway = TestGateway::start().await;
    gateway.say("s", "one").await.expect(200);
    let nothing = [user("one"), assistant("reply to: one")];
    for messages in [&nothing[..], &nothing[1..], &[system("Be brief.")]] {
        let refused = error(&gateway.in_session("s").post_json(CHAT, &chat(messages)).await, 400);
        assert_eq!((refused["code"].as_str(), refused["param"].as_str()), (Some("invalid_request"), Some("messages")));
    }
    assert_eq!(gateway.transcript("s").await.len(), 2);
    gateway.say("s", "two").await.expect(200);
    assert_eq!(gateway.context()[0], "user: one", "the refused system message does not hold");
}

//! Stateless responses: `store: false` and no name. No message is stored, and each request is one turn.

use herma_testkit::{Client, Gate, Reply};
use serde_json::{Value, json};

use crate::support::{Cluster, retry};

const RESPONSES: &str = "/v1/responses";

fn stateless(text: &str) -> Value {
    json!({"model": "m", "input": text, "store": false})
}

async fn sessions(client: &Client) -> usize {
    client.get("/api/sessions").await.expect(200)["data"].as_array().unwrap().len()
}

#[tokio::test]
async fn only_what_a_turn_cost_and_how_it_ended_is_kept() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let answer = client.post_json(RESPONSES, &stateless("one")).await;
    assert_eq!(answer.header("x-hermes-session-id"), None);
    let response = answer.expect(200);
    assert_eq!((response.get("session"), response.get("conversation")), (None, None));
    assert_eq!((&response["status"], &response["store"]), (&json!("completed"), &json!(false)));
    assert_eq!(response["output"][0]["content"][0]["text"], "reply to: one");
    client.get(&format!("{RESPONSES}/{}", response["id"].as_str().unwrap())).await.expect(404);
    let after = json!({"model": "m", "input": "two", "previous_response_id": response["id"]});
    let refused = client.post_json(RESPONSES, &after).await.expect(404);
    assert_eq!(refused["error"]["code"], "previous_response_not_found");
    cluster.upstream.push(Reply::status(400, "no"));
    client.post_json(RESPONSES, &stateless("two")).await.expect(502);
    cluster.stored().until_turns("completed", 1).await;
    cluster.stored().until_turns("failed", 1).await;
    assert_eq!((sessions(&client).await, cluster.stored().conversations()), (0, 0));
}

#[tokio::test]
async fn a_whole_history_goes_to_the_model_as_it_is() {
    let cluster = Cluster::start().await;
    let mut body = stateless("");
    body["instructions"] = json!("Be brief.");
    body["input"] = json!([
        {"role": "user", "content": "one"},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
        {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]);
    cluster.herma.client().post_json(RESPONSES, &body).await.expect(200);
    let sent = cluster.upstream.last_request();
    let roles: Vec<_> = sent.messages().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user"]);
    body["input"][2]["call_id"] = json!("other");
    let refused = cluster.herma.client().post_json(RESPONSES, &body).await.expect(400);
    assert_eq!(refused["error"]["param"], "input[2].call_id");
}

#[tokio::test]
async fn a_stream_of_no_conversation_has_every_event_and_no_session() {
    let cluster = Cluster::start().await;
    let mut body = stateless("one");
    body["stream"] = json!(true);
    let events = cluster.herma.client().post_stream(RESPONSES, &body).await.rest().await;
    let names: Vec<_> = events.iter().filter_map(|event| event.name.as_deref()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("response.created", "response.completed"));
    for event in events.iter().filter(|event| event.data.starts_with('{')) {
        assert_eq!(event.json()["response"].get("session"), None);
    }
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_answered_once() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let gate = Gate::new();
    cluster.upstream.push(Reply::Echo.held(&gate));
    let (first, body) = (client.clone(), stateless("one"));
    let first = tokio::spawn(async move { first.post_json(RESPONSES, &body).await.expect(200) });
    gate.until_waiting(1).await;
    let again = retry(&client, 1);
    let again = tokio::spawn(async move { again.post_json(RESPONSES, &stateless("one")).await.expect(200) });
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    gate.open();
    assert_eq!(first.await.unwrap()["id"], again.await.unwrap()["id"]);
    assert_eq!(cluster.upstream.requests().len(), 1);
    retry(&client, 2).post_json(RESPONSES, &stateless("one")).await.expect(200);
    assert_eq!(cluster.upstream.requests().len(), 1, "its history shows that its client has not seen the answer");
    for count in [0, 2] {
        let before = cluster.upstream.requests().len();
        retry(&client, count).post_json(RESPONSES, &stateless("one")).await.expect(200);
        assert_eq!(cluster.upstream.requests().len(), before + 1, "{count} is a request of its own");
        retry(&client, 2).post_json(RESPONSES, &stateless("one")).await.expect(200);
        assert_eq!(cluster.upstream.requests().len(), before + 1);
    }
}

#[tokio::test]
async fn an_idempotency_key_leads_to_the_first_answer_for_a_while() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client().header("idempotency-key", "k");
    let first = client.post_json(RESPONSES, &stateless("one")).await.expect(200);
    let second = client.post_json(RESPONSES, &stateless("one")).await.expect(200);
    assert_eq!(first, second);
    let mismatch = client.post_json(RESPONSES, &stateless("two")).await.expect(422);
    assert_eq!(mismatch["error"]["code"], "idempotency_mismatch");
    assert_eq!(cluster.upstream.requests().len(), 1);
    let failing = cluster.herma.client().header("idempotency-key", "f");
    cluster.upstream.push(Reply::status(400, "no"));
    failing.post_json(RESPONSES, &stateless("one")).await.expect(502);
    failing.post_json(RESPONSES, &stateless("one")).await.expect(200);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let cluster = Cluster::with_settings(&[("HERMA_CONTEXT_WINDOW", "1000")]).await;
    let client = cluster.herma.client();
    let refused = client.post_json(RESPONSES, &stateless(&"word ".repeat(2000))).await.expect(400);
    assert_eq!(refused["error"]["code"], "context_length_exceeded");
    cluster.upstream.push(Reply::context_too_long());
    let refused = client.post_json(RESPONSES, &stateless("one")).await.expect(400);
    assert_eq!(refused["error"]["code"], "context_length_exceeded");
    cluster.stored().until_settled().await;
    assert_eq!(cluster.stored().all_turns(), 0);
}

//! A run or a background response that failed is asked for again while another turn runs. It is queued under its
//! first id.

use herma_testkit::{Client, Reply};
use serde_json::{Value, json};

use crate::support::{Cluster, RetryMark, ask, named, retry, transcript, until};

/// An API that returns an id before the turn begins.
#[derive(Clone, Copy)]
enum Api {
    Runs,
    Responses,
}

/// A response that names no conversation is not among them: it shows the model its own history alone, so behind another
/// turn it becomes a branch.
const KEEPING_THEIR_ID: [(Api, RetryMark); 3] =
    [(Api::Runs, RetryMark::Key), (Api::Responses, RetryMark::Key), (Api::Runs, RetryMark::Sdk)];

impl Api {
    const ALL: [Self; 2] = [Self::Runs, Self::Responses];

    /// Sends the question "one". Only requests with a key name the conversation. An SDK's retry of a request that was
    /// answered completely is recognised only if the request names no conversation.
    async fn ask(self, client: Client, again: RetryMark) -> Value {
        let (path, name, status) = match self {
            Self::Runs => ("/v1/runs", "session_id", 202),
            Self::Responses => ("/v1/responses", "conversation", 200),
        };
        let mut body = json!({"model": "m", "input": "one"});
        if matches!(self, Self::Responses) {
            body["background"] = json!(true);
        }
        if matches!(again, RetryMark::Key) {
            body[name] = json!("s");
        }
        client.post_json(path, &body).await.expect(status)
    }

    /// Sends the same request again, as the retry with this number.
    async fn ask_again(self, client: Client, again: RetryMark, number: u32) -> Value {
        let client = match again {
            RetryMark::Key => again.second(client),
            RetryMark::Sdk => retry(&client, number),
        };
        self.ask(client, again).await
    }

    fn path(self, object: &Value) -> String {
        match self {
            Self::Runs => format!("/v1/runs/{}", object["run_id"].as_str().unwrap()),
            Self::Responses => format!("/v1/responses/{}", object["id"].as_str().unwrap()),
        }
    }

    async fn until(self, client: &Client, object: &Value, status: &str) -> Value {
        let path = self.path(object);
        let has_status = async || client.get(&path).await.expect(200)["status"] == status;
        until(&format!("it was to be {status}"), has_status).await;
        client.get(&path).await.expect(200)
    }

    async fn cancel(self, client: &Client, object: &Value) -> Value {
        let verb = match self {
            Self::Runs => "stop",
            Self::Responses => "cancel",
        };
        client.post_json(&format!("{}/{verb}", self.path(object)), &json!({})).await.expect(200)
    }

    /// Makes the first attempt fail, and returns the failed object.
    async fn fail(self, cluster: &Cluster, again: RetryMark) -> Value {
        cluster.upstream.push(Reply::status(400, "no"));
        let first = self.ask(again.first(cluster.herma.client()), again).await;
        self.until(&cluster.herma.client(), &first, "failed").await
    }
}

/// The id of the conversation that a run or a response belongs to.
fn conversation(object: &Value) -> &str {
    object["session"]["conversation_id"].as_str().unwrap()
}

/// The full view as `turn status: text`, and for each message whether it belongs to the first message's turn.
async fn turns(client: &Client, object: &Value) -> (Vec<String>, Vec<bool>) {
    let path = format!("/api/sessions/{}/messages?limit=200", conversation(object));
    let page = client.get(&path).await.expect(200);
    let rows = page["data"].as_array().unwrap();
    let text = |row: &Value| format!("{}: {}", row["turn_status"].as_str().unwrap(), row["content"].as_str().unwrap());
    (rows.iter().map(text).collect(), rows.iter().map(|row| row["turn_id"] == rows[0]["turn_id"]).collect())
}

#[tokio::test]
async fn a_retry_that_waits_keeps_the_first_id() {
    for (api, again) in KEEPING_THEIR_ID {
        let cluster = Cluster::start().await;
        let elsewhere = cluster.another().await;
        let client = cluster.herma.client();
        let failed = api.fail(&cluster, again).await;
        let path = api.path(&failed);
        let (gate, other) = cluster.hold(cluster.session(conversation(&failed)), ask("two")).await;
        let second = api.ask_again(cluster.herma.client(), again, 1).await;
        assert_eq!((api.path(&second), second["status"].as_str()), (path.clone(), Some("queued")));
        for client in [&client, &elsewhere.client()] {
            let shown = client.get(&path).await.expect(200);
            assert_eq!((&shown["status"], &shown["error"]), (&json!("queued"), &Value::Null));
            let third = api.ask_again(client.clone(), again, 2).await;
            assert_eq!(api.path(&third), path, "one more retry is the same");
        }
        assert_eq!(turns(&client, &failed).await.0, ["failed: one", "running: two"]);
        assert_eq!(cluster.stored().turns("queued"), 1);
        gate.open();
        other.await.unwrap().expect(200);
        api.until(&elsewhere.client(), &second, "completed").await;
        let (said, is_first) = turns(&client, &failed).await;
        let expected = ["failed: one", "completed: two", "completed: reply to: two", "completed: one"];
        assert_eq!(said, [&expected[..], &["completed: reply to: one"]].concat());
        assert_eq!(is_first, [true, false, false, true, true]);
        let context = cluster.upstream.last_request().transcript();
        assert_eq!(context, ["user: two", "assistant: reply to: two", "user: one"]);
        assert_eq!(api.path(&api.ask_again(client.clone(), again, 3).await), path);
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn a_retry_of_a_response_without_a_name_shows_the_model_no_other_words() {
    let cluster = Cluster::start().await;
    let client = cluster.herma.client();
    let failed = Api::Responses.fail(&cluster, RetryMark::Sdk).await;
    let (gate, other) = cluster.hold(cluster.session(conversation(&failed)), ask("two")).await;
    let second = Api::Responses.ask_again(client.clone(), RetryMark::Sdk, 1).await;
    Api::Responses.until(&client, &second, "completed").await;
    assert_eq!(cluster.upstream.last_request().transcript(), ["user: one"]);
    assert_ne!(conversation(&second), conversation(&failed));
    gate.open();
    other.await.unwrap().expect(200);
    let shown = client.get(&Api::Responses.path(&failed)).await.expect(200);
    assert_eq!(shown["status"], "failed", "the first id stays as it was");
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn a_retry_goes_on_in_place_if_the_other_turn_is_refused() {
    for api in Api::ALL {
        let cluster = Cluster::start().await;
        let failed = api.fail(&cluster, RetryMark::Key).await;
        let gate = herma_testkit::Gate::new();
        let too_long = json!({"error": {"message": "too long", "code": "context_length_exceeded"}}).to_string();
        cluster.upstream.push(Reply::status(400, &too_long).held(&gate));
        let other = crate::support::send(cluster.session("s"), ask("two"));
        gate.until_waiting(1).await;
        let second = api.ask_again(cluster.herma.client(), RetryMark::Key, 1).await;
        assert_eq!((api.path(&second), second["status"].as_str()), (api.path(&failed), Some("queued")));
        gate.open();
        assert_ne!(other.await.unwrap().status, 200);
        api.until(&cluster.herma.client(), &second, "completed").await;
        let (said, _) = turns(&cluster.herma.client(), &failed).await;
        assert_eq!(said.last().map(String::as_str), Some("completed: reply to: one"), "{said:?}");
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn a_retry_whose_process_dies_while_it_waits_has_failed_as_before() {
    for (api, again) in KEEPING_THEIR_ID {
        let mut cluster = Cluster::start().await;
        let elsewhere = cluster.another().await;
        let failed = api.fail(&cluster, again).await;
        let (gate, other) = cluster.hold(named(elsewhere.client(), conversation(&failed)), ask("two")).await;
        let second = api.ask_again(cluster.herma.client(), again, 1).await;
        assert_eq!((api.path(&second), second["status"].as_str()), (api.path(&failed), Some("queued")));
        cluster.herma.kill();
        let ended = api.until(&elsewhere.client(), &second, "failed").await;
        assert_eq!(ended["error"], failed["error"]);
        let third = api.ask_again(elsewhere.client(), again, 2).await;
        assert_eq!((api.path(&third), third["status"].as_str()), (api.path(&failed), Some("queued")));
        gate.open();
        other.await.unwrap().expect(200);
        api.until(&elsewhere.client(), &third, "completed").await;
        assert_eq!(turns(&elsewhere.client(), &failed).await.1, [true, false, false, true, true]);
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn a_retry_that_waits_too_long_has_failed_as_before() {
    for api in Api::ALL {
        let cluster = Cluster::with_settings(&[("HERMA_ADMISSION__QUEUE_TIMEOUT", "300ms")]).await;
        let client = cluster.herma.client();
        let failed = api.fail(&cluster, RetryMark::Key).await;
        let (gate, other) = cluster.hold(cluster.session(conversation(&failed)), ask("two")).await;
        for _ in 0..2 {
            let second = api.ask_again(client.clone(), RetryMark::Key, 1).await;
            assert_eq!((api.path(&second), second["status"].as_str()), (api.path(&failed), Some("queued")));
            let ended = api.until(&client, &second, "failed").await;
            assert_eq!(ended["error"], failed["error"]);
        }
        gate.open();
        other.await.unwrap().expect(200);
        let third = api.ask_again(client.clone(), RetryMark::Key, 1).await;
        assert_eq!(api.path(&third), api.path(&failed));
        api.until(&client, &third, "completed").await;
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn what_never_began_because_its_process_died_keeps_its_id() {
    for (api, has_ended) in [false, true].into_iter().flat_map(|ended| Api::ALL.map(|api| (api, ended))) {
        let mut cluster = Cluster::start().await;
        let elsewhere = cluster.another().await;
        let client = elsewhere.client();
        let (gate, other) = cluster.hold(named(elsewhere.client(), "s"), ask("two")).await;
        let first = api.ask(RetryMark::Key.first(cluster.herma.client()), RetryMark::Key).await;
        assert_eq!(first["status"], "queued");
        cluster.herma.kill();
        if has_ended {
            cluster.stored().until_turns("queued", 0).await;
            assert_ne!(client.get(&api.path(&first)).await.expect(200)["status"], "queued");
        }
        let second = api.ask_again(elsewhere.client(), RetryMark::Key, 1).await;
        assert_eq!(api.path(&second), api.path(&first));
        assert_eq!(second["created_at"], first["created_at"]);
        gate.open();
        other.await.unwrap().expect(200);
        api.until(&client, &first, "completed").await;
        assert_eq!(
            transcript(&client, "s").await,
            ["user: two", "assistant: reply to: two", "user: one", "assistant: reply to: one"]
        );
        assert_eq!(api.path(&api.ask_again(elsewhere.client(), RetryMark::Key, 2).await), api.path(&first));
        assert_eq!(client.get("/api/sessions/s").await.expect(200)["turn_count"], 2);
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn what_waited_too_long_keeps_its_id() {
    for api in Api::ALL {
        let cluster = Cluster::with_settings(&[("HERMA_ADMISSION__QUEUE_TIMEOUT", "1s")]).await;
        let client = cluster.herma.client();
        let (gate, other) = cluster.hold(cluster.session("s"), ask("two")).await;
        let first = api.ask(RetryMark::Key.first(client.clone()), RetryMark::Key).await;
        api.until(&client, &first, "failed").await;
        // Two requests at the same time: one takes the id over, the other joins it.
        let again = || api.ask_again(client.clone(), RetryMark::Key, 1);
        let (second, third) = tokio::join!(again(), again());
        assert_eq!((api.path(&second), api.path(&third)), (api.path(&first), api.path(&first)));
        assert_eq!((&second["status"], &third["status"]), (&json!("queued"), &json!("queued")));
        api.until(&client, &first, "failed").await;
        gate.open();
        other.await.unwrap().expect(200);
        assert_eq!(api.path(&again().await), api.path(&first));
        api.until(&client, &first, "completed").await;
        assert_eq!(transcript(&client, "s").await.len(), 4);
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn a_retry_that_waits_is_cancelled_by_its_id_in_any_process() {
    for (api, is_elsewhere) in [false, true].into_iter().flat_map(|other| Api::ALL.map(|api| (api, other))) {
        let cluster = Cluster::start().await;
        let elsewhere = cluster.another().await;
        let client = cluster.herma.client();
        let failed = api.fail(&cluster, RetryMark::Key).await;
        let (gate, other) = cluster.hold(cluster.session(conversation(&failed)), ask("two")).await;
        let second = api.ask_again(client.clone(), RetryMark::Key, 1).await;
        assert_eq!((api.path(&second), second["status"].as_str()), (api.path(&failed), Some("queued")));
        let caller = if is_elsewhere { elsewhere.client() } else { client.clone() };
        assert_eq!(api.cancel(&caller, &second).await["status"], "cancelled");
        let third = api.ask_again(client.clone(), RetryMark::Key, 1).await;
        assert_eq!((api.path(&third), third["status"].as_str()), (api.path(&failed), Some("cancelled")));
        gate.open();
        other.await.unwrap().expect(200);
        cluster.session("s").post_json("/v1/chat/completions", &ask("three")).await.expect(200);
        let seen = cluster.upstream.last_request().transcript();
        named(elsewhere.client(), "s").post_json("/v1/chat/completions", &ask("four")).await.expect(200);
        let read_again = cluster.upstream.last_request().transcript();
        assert_eq!(read_again[..seen.len()], seen, "the cached history is equal to the stored one");
        assert_eq!(cluster.upstream.requests().len(), 4);
        cluster.stored().until_settled().await;
    }
}

#[tokio::test]
async fn the_events_of_a_run_that_waits_again_are_those_of_its_last_attempt() {
    let cluster = Cluster::start().await;
    let elsewhere = cluster.another().await;
    let api = Api::Runs;
    let failed = api.fail(&cluster, RetryMark::Key).await;
    let (gate, other) = cluster.hold(cluster.session(conversation(&failed)), ask("two")).await;
    api.ask_again(cluster.herma.client(), RetryMark::Key, 1).await;
    let path = format!("{}/events", api.path(&failed));
    let mut streams = Vec::new();
    for client in [cluster.herma.client(), elsewhere.client()] {
        streams.push(client.get_stream(&path).await);
    }
    gate.open();
    other.await.unwrap().expect(200);
    for stream in &mut streams {
        let events = stream.rest().await;
        let names: Vec<_> = events
            .iter()
            .filter(|event| event.comment.is_empty())
            .map(|event| event.json()["event"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(names.last().map(String::as_str), Some("run.completed"), "{names:?}");
        assert!(!names.iter().any(|name| name == "run.failed"), "{names:?}");
    }
    cluster.stored().until_settled().await;
}

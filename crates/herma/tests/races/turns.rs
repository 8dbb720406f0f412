//! Turns of one conversation never interleave.

use futures_util::future::join_all;
use herma_testkit::Client;
use serde_json::Value;

use crate::support::{CHAT, Cluster, ask, ask_streamed, named, send, transcript};

#[tokio::test]
async fn a_second_request_waits_for_the_end_of_the_first() {
    let cluster = Cluster::start().await;
    let (gate, first) = cluster.hold(cluster.session("s"), ask("one")).await;
    let second = send(cluster.session("s"), ask("two"));
    cluster.stored().until_turns("queued", 1).await;
    assert_eq!(cluster.upstream.requests().len(), 1);
    gate.open();
    assert_eq!(first.await.unwrap().content(), "reply to: one");
    assert_eq!(second.await.unwrap().content(), "reply to: two");
    let context = cluster.upstream.last_request().transcript();
    assert_eq!(context, ["user: one", "assistant: reply to: one", "user: two"]);
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn ten_waiters_go_in_the_order_of_their_arrival() {
    let cluster = Cluster::start().await;
    let (gate, first) = cluster.hold(cluster.session("s"), ask("0")).await;
    let mut waiting = vec![first];
    for number in 1..=10 {
        waiting.push(send(cluster.session("s"), ask(&number.to_string())));
        cluster.stored().until_turns("queued", number).await;
    }
    gate.open();
    for answer in join_all(waiting).await {
        answer.unwrap().expect(200);
    }
    let order: Vec<String> = cluster.upstream.requests().iter().map(|request| request.last_user_text()).collect();
    assert_eq!(order, (0..=10).map(|number| number.to_string()).collect::<Vec<_>>());
    cluster.stored().until_settled().await;
}

/// One turn, streamed or whole, as a client sees it.
async fn turn(client: &Client, text: &str, streaming: bool) -> String {
    if streaming {
        client.post_stream(CHAT, &ask_streamed(text)).await.text().await
    } else {
        client.post_json(CHAT, &ask(text)).await.content()
    }
}

#[tokio::test]
async fn fifty_clients_on_one_conversation_leave_one_line_of_turns() {
    let cluster = Cluster::start().await;
    let clients = (0..50).map(|number| {
        let client = cluster.session("s");
        tokio::spawn(async move {
            let text = format!("message {number}");
            assert_eq!(turn(&client, &text, number % 2 == 0).await, format!("reply to: {text}"));
        })
    });
    for client in join_all(clients).await {
        client.unwrap();
    }
    let contexts: Vec<Vec<String>> = cluster.upstream.requests().iter().map(|request| request.transcript()).collect();
    assert_eq!(contexts.len(), 50);
    for pair in contexts.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        assert_eq!(after[..before.len()], before[..]);
        assert_eq!(after.len(), before.len() + 2);
    }
    let said = transcript(&cluster.herma.client(), "s").await;
    assert_eq!(said[..99], contexts[49][..]);
    assert_eq!(said.len(), 100);
    let mut asked: Vec<&String> = said.iter().step_by(2).collect();
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 50);
    let row = cluster.herma.client().get("/api/sessions/s").await.expect(200);
    assert_eq!((&row["turn_count"], &row["message_count"]), (&Value::from(50), &Value::from(100)));
    cluster.stored().until_settled().await;
}

#[tokio::test]
async fn conversations_do_not_wait_for_each_other() {
    let cluster = Cluster::start().await;
    let (gate, held) = cluster.hold(cluster.session("slow"), ask("one")).await;
    assert_eq!(cluster.session("quick").post_json(CHAT, &ask("two")).await.content(), "reply to: two");
    gate.open();
    held.await.unwrap().expect(200);
}

#[tokio::test]
async fn reject_says_which_turn_runs_and_leaves_nothing() {
    let cluster = Cluster::start().await;
    let (gate, held) = cluster.hold(cluster.session("s"), ask("one")).await;
    let refused = cluster.session("s").header("x-hermes-turn-policy", "reject").post_json(CHAT, &ask("two")).await;
    assert_eq!(refused.header("retry-after"), Some("1"));
    let error = refused.expect(409)["error"].clone();
    assert_eq!(error["code"], "conversation_busy");
    let rows = cluster.herma.client().get("/api/sessions/s/messages").await.expect(200);
    let running = rows["data"][0]["turn_id"].as_str().unwrap().to_owned();
    assert!(error["message"].as_str().unwrap().contains(&running), "{error} names {running}");
    gate.open();
    held.await.unwrap().expect(200);
    assert_eq!(transcript(&cluster.herma.client(), "s").await, ["user: one", "assistant: reply to: one"]);
    assert_eq!(cluster.stored().all_turns(), 1);
}

#[tokio::test]
async fn simultaneous_first_uses_of_one_id_make_one_conversation() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let clients = (0..64).map(|number| {
        let client = if number % 2 == 0 { cluster.herma.client() } else { other.client() };
        send(named(client, "fresh"), ask(&format!("message {number}")))
    });
    let answers: Vec<Value> = join_all(clients).await.into_iter().map(|answer| answer.unwrap().expect(200)).collect();
    let conversation = &answers[0]["session"]["conversation_id"];
    assert!(answers.iter().all(|answer| &answer["session"]["conversation_id"] == conversation));
    let created = answers.iter().filter(|answer| answer["session"]["resolution"] == "created");
    assert_eq!(created.count(), 1);
    assert_eq!(cluster.stored().conversations(), 1);
    let contexts: Vec<usize> = cluster.upstream.requests().iter().map(|request| request.messages().len()).collect();
    assert_eq!(contexts, (0..64).map(|turn| 2 * turn + 1).collect::<Vec<_>>());
    cluster.stored().until_settled().await;
}

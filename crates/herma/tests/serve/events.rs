//! `GET /api/events`: which events a stream has, from which position, and for which keys.

use herma_gateway::access::{KeyGrant, create_key};
use herma_model::{Alias, KeyScope};
use herma_store::{Change, KEPT_EVENTS, Scope, Store};
use herma_store_sqlite::SqliteStore;
use herma_testkit::{Client, Event, EventStream, Launch, Reply};
use serde_json::{Value, json};

use crate::support::{CHAT, SESSION_ID, SESSION_KEY, TestGateway, chat, error, user};

const EVENTS: &str = "/api/events";
const FROM_THE_BEGINNING: &str = "/api/events?starting_after=0";

/// Opens an event stream.
async fn follow(client: &Client, path: &str) -> EventStream {
    let stream = client.get_stream(path).await;
    assert_eq!((stream.status, stream.header("content-type")), (200, Some("text/event-stream")));
    stream
}

/// Opens a stream that begins now. Its first frame has only the current position.
async fn follow_from_now(client: &Client) -> EventStream {
    let mut stream = follow(client, EVENTS).await;
    let place = stream.next().await.expect("a place");
    assert!(place.id.is_some() && place.data.is_empty() && place.name.is_none(), "{place:?}");
    stream
}

/// The next event. Checks that its name is also in its data.
async fn next(stream: &mut EventStream) -> Event {
    let event = stream.next().await.expect("an event");
    assert_eq!(event.json()["event"].as_str(), event.name.as_deref(), "{event:?}");
    assert!(event.id.is_some(), "{event:?}");
    event
}

/// The next events as lines: name and session id.
async fn lines(stream: &mut EventStream, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..count {
        let event = next(stream).await;
        lines.push(format!("{} {}", event.name.as_deref().unwrap(), event.json()["session_id"].as_str().unwrap()));
    }
    lines
}

/// The data of an event without its time.
fn data_without_time(event: &Event) -> Value {
    let mut data = event.json();
    let at = data["at"].as_str().expect("a time").to_owned();
    assert!(at.len() == 24 && at.ends_with('Z'), "{at}");
    data.as_object_mut().unwrap().remove("at");
    data
}

#[tokio::test]
async fn every_change_is_told_as_it_happens() {
    let herma = Launch::serve(env!("CARGO_BIN_EXE_herma")).args(["--context-window", "8000"]).start().await;
    let client = herma.client();
    let mut stream = follow_from_now(&client).await;
    let say = async |text: &str| {
        let body = json!({"model": "offline", "messages": [user(text)]});
        client.clone().header(SESSION_ID, "trip").post_json(CHAT, &body).await.expect(200)
    };
    let handle = say("to Rome").await["session"]["conversation_id"].clone();
    let provenance = json!({
        "conversation_id": handle, "session_id": "trip", "root_session_id": "trip", "kind": "main",
        "origin_kind": "main",
        "creator_kind": "api", "compression_depth": 0, "compaction_count": 0, "is_user_facing": true,
    });
    let with = |event: &str, more: Value| {
        let mut data = provenance.clone();
        data["event"] = json!(event);
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        data
    };
    assert_eq!(data_without_time(&next(&mut stream).await), with("session.created", json!({})));
    assert_eq!(
        data_without_time(&next(&mut stream).await),
        with("session.renamed", json!({"title": "to Rome"})),
        "it was answered"
    );

    client.send_json("PATCH", "/api/sessions/trip", &json!({"title": "Sea", "archived": true})).await.expect(200);
    assert_eq!(data_without_time(&next(&mut stream).await), with("session.renamed", json!({"title": "Sea"})));
    assert_eq!(data_without_time(&next(&mut stream).await), with("session.archived", json!({"archived": true})));
    client.send_json("PATCH", "/api/sessions/trip", &json!({"title": "", "metadata": {"a": "b"}})).await.expect(200);
    assert_eq!(data_without_time(&next(&mut stream).await), with("session.renamed", json!({})));

    client.post_json("/api/sessions/trip/end", &json!({})).await.expect(200);
    assert_eq!(data_without_time(&next(&mut stream).await), with("session.ended", json!({"end_reason": "ended"})));
    client.post_json("/api/sessions/trip/reopen", &json!({})).await.expect(200);
    assert_eq!(data_without_time(&next(&mut stream).await), with("session.reopened", json!({})));

    let branch = client.post_json("/api/sessions/trip/branch", &json!({"id": "detour"})).await.expect(201);
    let (created, branched) = (next(&mut stream).await, next(&mut stream).await);
    for (event, name) in [(&created, "session.created"), (&branched, "session.branched")] {
        let mut expected = branch["provenance"].clone();
        expected["event"] = json!(name);
        assert_eq!(data_without_time(event), expected);
        assert_eq!((&expected["parent_session_id"], &expected["kind"]), (&json!("trip"), &json!("branch")));
    }

    for number in 1..=12 {
        say(&format!("message {number}: {}", "we went on and saw one more thing. ".repeat(16))).await;
    }
    let done = client.post_json("/api/sessions/trip/compactions", &json!({"mode": "split"})).await.expect(200);
    let (compacted, moved) = (next(&mut stream).await, next(&mut stream).await);
    let row = client.get("/api/sessions/trip").await.expect(200);
    let mut expected = row["provenance"].clone();
    expected["event"] = json!("session.head_moved");
    assert_eq!((data_without_time(&moved), &expected["previous_session_id"]), (expected.clone(), &json!("trip")));
    let id = &client.get("/api/sessions/trip/compactions").await.expect(200)["data"][0]["id"];
    expected["event"] = json!("session.compacted");
    expected["action"] = json!("compact");
    expected["mode"] = json!("split");
    expected["compaction_id"] = id.clone();
    assert_eq!(data_without_time(&compacted), expected, "{done}");
    client
        .post_json(&format!("/api/sessions/trip/compactions/{}/undo", id.as_str().unwrap()), &json!({}))
        .await
        .expect(200);
    let undone = next(&mut stream).await;
    assert_eq!((undone.name.as_deref(), &undone.json()["action"]), (Some("session.compacted"), &json!("undo")));

    client.delete("/api/sessions/trip").await.expect(200);
    let gone = json!({"event": "session.deleted", "conversation_id": handle, "session_id": row["id"]});
    assert_eq!(data_without_time(&next(&mut stream).await), gone);
    let mut again = follow(&client, FROM_THE_BEGINNING).await;
    let left = ["session.created detour", "session.branched detour"].map(str::to_owned);
    assert_eq!(lines(&mut again, 2).await, left, "only the deletion is left of a deleted conversation");
    assert_eq!(data_without_time(&next(&mut again).await), gone);
}

#[tokio::test]
async fn a_reader_goes_on_where_it_was_also_after_a_crash() {
    let mut gateway = TestGateway::start().await;
    let mut stream = follow(&gateway.client(), EVENTS).await;
    let place = stream.next().await.unwrap().id.unwrap();
    for session in ["one", "two", "three"] {
        gateway.say(session, "hello").await.expect(200);
    }
    let first = next(&mut stream).await.id.unwrap();
    drop(stream);
    gateway.restart().await;
    gateway.say("two", "a turn is no event").await.expect(200);
    gateway.say("four", "hello").await.expect(200);
    let after = |id: &str| follow_owned(gateway.client().header("last-event-id", id), EVENTS.to_owned());
    assert_eq!(lines(&mut after(&place).await, 2).await, ["session.created one", "session.renamed one"]);
    let first_events = |session| [format!("session.created {session}"), format!("session.renamed {session}")];
    let rest = ["one", "two", "three", "four"].into_iter().flat_map(first_events).skip(1).collect::<Vec<_>>();
    assert_eq!(lines(&mut after(&first).await, rest.len()).await, rest);
    let query = format!("{EVENTS}?starting_after={place}");
    assert_eq!(lines(&mut follow(&gateway.client(), &query).await, 1).await, ["session.created one"]);
    let both = follow_owned(gateway.client().header("last-event-id", &first), query).await;
    assert_eq!(lines(&mut { both }, rest.len()).await, rest, "the header wins");
}

async fn follow_owned(client: Client, path: String) -> EventStream {
    follow(&client, &path).await
}

#[tokio::test]
async fn what_is_no_place_is_refused_and_what_is_unknown_is_a_gap() {
    let gateway = TestGateway::start().await;
    for query in ["?starting_after=nonsense", "?starting_after=-1", "?starting_after=7", "?after=0"] {
        let error = error(&gateway.client().get(&format!("{EVENTS}{query}")).await, 400);
        assert_eq!(error["param"].as_str(), query[1..].split('=').next(), "{error}");
    }
    for id in ["nonsense", "1", "a-1-1"] {
        let answer = gateway.client().header("last-event-id", id).get(EVENTS).await;
        assert_eq!(error(&answer, 400)["param"], "Last-Event-ID");
    }
    error(&Client::new(gateway.herma.base_url()).get(EVENTS).await, 401);
    gateway.say("trip", "hello").await.expect(200);
    let mut stream = follow(&gateway.client(), &format!("{EVENTS}?starting_after=abc-7")).await;
    let gap = next(&mut stream).await;
    assert_eq!((gap.name.as_deref(), &gap.json()["missed_after"]), (Some("session.gap"), &json!("abc-7")));
    assert_eq!(gap.json()["resumed_after"].as_str(), gap.id.as_deref());
    assert_eq!(lines(&mut stream, 1).await, ["session.created trip"]);
}

#[tokio::test]
async fn a_reader_that_is_too_far_behind_is_told_so_once() {
    let gateway = TestGateway::start().await;
    let mut stream = follow(&gateway.client(), EVENTS).await;
    let place = stream.next().await.unwrap().id.unwrap();
    gateway.say("trip", "hello").await.expect(200);
    assert_eq!(lines(&mut stream, 1).await, ["session.created trip"]);
    drop(stream);
    rename_often(&gateway).await;
    let client = gateway.client().header("last-event-id", &place);
    let mut stream = follow(&client, EVENTS).await;
    let gap = next(&mut stream).await;
    assert_eq!((gap.name.as_deref(), &gap.json()["missed_after"]), (Some("session.gap"), &json!(place)));
    assert!(gap.json()["message"].as_str().unwrap().contains("GET /api/sessions"), "{gap:?}");
    let mut last = None;
    for _ in 0..KEPT_EVENTS {
        let event = next(&mut stream).await;
        assert_eq!(event.name.as_deref(), Some("session.renamed"));
        last = event.id;
    }
    gateway.say("train", "hello").await.expect(200);
    assert_eq!(lines(&mut stream, 1).await, ["session.created train"]);
    let mut again = follow(&gateway.client().header("last-event-id", &last.unwrap()), EVENTS).await;
    assert_eq!(lines(&mut again, 1).await, ["session.created train"]);
}

/// Renames `trip` from another process, until the store keeps only these events.
async fn rename_often(gateway: &TestGateway) {
    let store = std::sync::Arc::new(SqliteStore::open(&gateway.herma.data().join("herma.db")).unwrap());
    let tenant = store.ensure_tenant("default", herma_gateway::now()).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for title in 0..KEPT_EVENTS {
        let (store, scope) = (std::sync::Arc::clone(&store), Scope { tenant, keys: KeyScope::All, expected: None });
        tasks.spawn(async move {
            let change = Change { title: Some(Some(title.to_string())), ..Change::default() };
            store.update(&scope, &Alias::parse("trip").unwrap(), change, herma_gateway::now()).await.unwrap().unwrap();
        });
    }
    tasks.join_all().await;
    store.close().await;
}

#[tokio::test]
async fn a_conversation_that_was_refused_late_gets_a_deleted_event() {
    let gateway = TestGateway::start().await;
    gateway.upstream.push(Reply::context_too_long());
    error(&gateway.say("trip", "far too long").await, 400);
    let mut stream = follow(&gateway.client(), FROM_THE_BEGINNING).await;
    assert_eq!(lines(&mut stream, 1).await, ["session.deleted trip"], "its creation may have been shown");
    gateway.say("trip", "short").await.expect(200);
    assert_eq!(lines(&mut stream, 1).await, ["session.created trip"]);
}

#[tokio::test]
async fn a_key_gets_only_events_of_conversations_that_it_may_read() {
    let gateway = TestGateway::start().await;
    let store = SqliteStore::open(&gateway.herma.data().join("herma.db")).unwrap();
    let restricted =
        create_key(&store, KeyGrant::of("default").for_session_keys(KeyScope::parse(Some("red:*")))).await.unwrap();
    let stranger = create_key(&store, KeyGrant::of("elsewhere")).await.unwrap();
    store.close().await;
    let of = |secret: &str| Client::new(gateway.herma.base_url()).key(secret);
    let (restricted, stranger) = (of(&restricted.secret), of(&stranger.secret));
    let (mut red, mut foreign) = (follow_from_now(&restricted).await, follow_from_now(&stranger).await);
    for (session, key) in [("blue", "blue:1"), ("red", "red:1")] {
        let client = gateway.in_session(session).header(SESSION_KEY, key);
        client.post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    }
    assert_eq!(lines(&mut red, 2).await, ["session.created red", "session.renamed red"]);
    for session in ["blue", "red"] {
        gateway.client().delete(&format!("/api/sessions/{session}")).await.expect(200);
    }
    stranger.clone().header(SESSION_ID, "own").post_json(CHAT, &chat(&[user("hello")])).await.expect(200);
    assert_eq!(lines(&mut foreign, 1).await, ["session.created own"]);
    assert_eq!(lines(&mut red, 1).await, ["session.deleted red"]);
    let mut again = follow(&restricted, FROM_THE_BEGINNING).await;
    assert_eq!(lines(&mut again, 1).await, ["session.deleted red"]);
}

#[tokio::test]
async fn a_reader_whose_key_was_revoked_is_told_nothing_more() {
    let gateway = TestGateway::start().await;
    let store = SqliteStore::open(&gateway.herma.data().join("herma.db")).unwrap();
    let key = create_key(&store, KeyGrant::of("default")).await.unwrap();
    let mut stream = follow_from_now(&Client::new(gateway.herma.base_url()).key(&key.secret)).await;
    gateway.say("trip", "hello").await.expect(200);
    assert_eq!(lines(&mut stream, 1).await, ["session.created trip"]);
    assert!(store.revoke_key(key.id, herma_gateway::now()).await.unwrap());
    store.close().await;
    // The gateway accepts a revoked key until its cached check expires.
    let refused = loop {
        let title = json!({"title": format!("at {}", herma_gateway::now().0)});
        gateway.client().send_json("PATCH", "/api/sessions/trip", &title).await.expect(200);
        let event = stream.next().await.expect("an event or an error");
        if event.name.is_none() {
            break event;
        }
    };
    assert_eq!(refused.json()["error"]["code"], "invalid_api_key");
    assert_eq!(stream.next().await, None);
}

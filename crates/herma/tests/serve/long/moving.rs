//! The head moves to a new session. Clients with an older id continue, and see the change in one field only.

use serde_json::json;

use super::{
    context, many_words, send_four, small_window_gateway, summaries, summary_line, text, without_nulls, words,
};
use crate::support::{CHAT, CONVERSATION_ID, SESSION_ID, chat, data, lines, streamed, user};

#[tokio::test]
async fn a_conversation_that_outgrows_its_window_goes_on_in_a_continuation() {
    let mut gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    let before = gateway.transcript("trip").await;
    let answer = gateway.say("trip", &many_words(5)).await;
    let session = answer.expect(200)["session"].clone();
    let head = text(&session["session_id"]);
    assert_eq!(answer.header(SESSION_ID), Some(head.as_str()));
    assert_eq!(answer.header(CONVERSATION_ID), session["conversation_id"].as_str());
    assert_eq!(
        (&session["requested_id"], &session["resolution"], &session["rotated"]),
        (&json!("trip"), &json!("head"), &json!(true))
    );
    let provenance = &session["provenance"];
    for (name, expected) in [
        ("session_id", json!(head)),
        ("previous_session_id", json!("trip")),
        ("root_session_id", json!("trip")),
        ("parent_session_id", json!("trip")),
        ("parent_relation", json!("continuation")),
        ("kind", json!("continuation")),
        ("origin_kind", json!("main")),
        ("creator_kind", json!("compression")),
        ("reason", json!("compression")),
        ("compression_depth", json!(1)),
        ("compaction_mode", json!("split")),
        ("compaction_count", json!(1)),
        ("is_user_facing", json!(true)),
    ] {
        assert_eq!(provenance[name], expected, "{name}");
    }
    assert!(without_nulls(provenance), "{provenance}");
    let row = gateway.client().get(&format!("/api/sessions/{head}")).await.expect(200);
    assert_eq!((&row["id"], &row["name"]), (&json!(head), &json!("trip")), "the name stays when the head moves");
    assert_eq!(summaries(&gateway).len(), 1);
    assert_eq!(context(&gateway), [summary_line(), format!("user: {}", many_words(5))]);

    for _ in 0..2 {
        let rows = gateway.rows("trip").await;
        let said: Vec<_> = rows.iter().filter(|row| row["kind"] != "summary").cloned().collect();
        let expected = [&before[..], &[format!("user: {}", many_words(5)), "assistant: noted".to_owned()]].concat();
        assert_eq!(lines(&said), expected, "each message once");
        assert_eq!(rows.len(), said.len() + 1, "and the boundary");
        let row = gateway.client().get("/api/sessions/trip").await.expect(200);
        assert_eq!((&row["id"], &row["provenance"]), (&json!(head), provenance), "live, and after a restart");
        let old = gateway.client().get("/api/sessions/trip?pin=exact").await.expect(200);
        assert_eq!((&old["id"], &old["end_reason"]), (&json!("trip"), &json!("compression")));
        assert_eq!(gateway.sessions().await.len(), 1, "one conversation is listed once");
        gateway.restart().await;
    }
}

#[tokio::test]
async fn a_stream_tells_the_new_head_in_its_header_and_in_its_last_chunk() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    let mut stream = gateway.in_session("trip").post_stream(CHAT, &streamed(chat(&[user(&many_words(5))]))).await;
    let told = stream.header(SESSION_ID).expect("the head").to_owned();
    assert_ne!(told, "trip");
    let events = stream.rest().await;
    assert!(events.iter().all(|event| event.name.is_none()), "no named event unless asked for");
    let mut chunks = events.iter().filter(|event| event.data.starts_with('{')).map(herma_testkit::Event::json);
    let last = chunks.rfind(|chunk| !chunk["choices"][0]["finish_reason"].is_null()).expect("a last chunk");
    assert_eq!(
        (&last["session"]["session_id"], &last["session"]["rotated"], &last["session"]["resolution"]),
        (&json!(told), &json!(true), &json!("head"))
    );
    let again = gateway.in_session("trip").post_stream(CHAT, &streamed(chat(&[user("and?")]))).await;
    assert_eq!(again.header(SESSION_ID), Some(told.as_str()));
}

#[tokio::test]
async fn a_stream_that_waited_ten_seconds_for_a_summary_opens_with_the_old_head_and_ends_with_the_new() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    let gate = herma_testkit::Gate::new();
    gateway.upstream.push(herma_testkit::Reply::text(super::SUMMARY).held(&gate));
    let mut stream = gateway.in_session("trip").post_stream(CHAT, &streamed(chat(&[user(&many_words(5))]))).await;
    assert_eq!(stream.header(SESSION_ID), Some("trip"), "the head of that moment");
    gate.open();
    let chunks = stream.chunks().await;
    let last = chunks.iter().rfind(|chunk| !chunk["session"].is_null()).expect("a last chunk");
    assert_eq!(last["session"]["rotated"], true);
    assert_ne!(last["session"]["session_id"], json!("trip"));
}

#[tokio::test]
async fn a_client_that_asks_for_events_gets_a_compaction_event() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    let client = gateway.in_session("trip").header("x-hermes-events", "1");
    let mut stream = client.post_stream(CHAT, &streamed(chat(&[user(&many_words(5))]))).await;
    let events = stream.rest().await;
    let named: Vec<_> = events.iter().filter(|event| event.name.as_deref() == Some("session.compacted")).collect();
    assert_eq!(named.len(), 1);
    assert_eq!(named[0].json()["session_id"].as_str(), stream.header(SESSION_ID));
}

#[tokio::test]
async fn in_place_the_session_stays_and_no_new_head_is_claimed() {
    let gateway = small_window_gateway(&[("HERMA_COMPACTION__MODE", "in_place")]).await;
    send_four(&gateway, "trip").await;
    let session = gateway.say("trip", &many_words(5)).await.expect(200)["session"].clone();
    assert_eq!(
        (&session["session_id"], &session["resolution"], &session["rotated"]),
        (&json!("trip"), &json!("head"), &json!(false))
    );
    let provenance = &session["provenance"];
    assert_eq!(
        (&provenance["kind"], &provenance["compaction_mode"], &provenance["compaction_count"]),
        (&json!("main"), &json!("in_place"), &json!(1))
    );
    assert_eq!(provenance.get("previous_session_id"), None);
    assert_eq!((&provenance["compression_depth"], summaries(&gateway).len()), (&json!(0), 1));
    assert_eq!(context(&gateway), [summary_line(), format!("user: {}", many_words(5))]);
    assert!(gateway.client().get("/api/sessions/trip").await.expect(200)["ended_at"].is_null());
}

#[tokio::test]
async fn the_first_id_one_in_the_middle_and_the_head_all_lead_to_the_head() {
    let mut gateway = small_window_gateway(&[]).await;
    let mut ids = vec!["trip".to_owned()];
    let mut number = 0;
    while ids.len() <= 5 {
        number += 1;
        let session = gateway.say("trip", &many_words(number)).await.expect(200)["session"].clone();
        if session["rotated"] == true {
            ids.push(text(&session["session_id"]));
        }
    }
    gateway.restart().await;
    let head = ids.last().expect("a head").clone();
    for (depth, id) in ids.iter().enumerate() {
        let session = gateway.say(id, "short").await.expect(200)["session"].clone();
        assert_eq!(session["session_id"], json!(head), "depth {depth}");
        let expected = if *id == head { "head" } else { "moved" };
        assert_eq!((&session["resolution"], &session["rotated"]), (&json!(expected), &json!(false)), "depth {depth}");
        assert_eq!(session["provenance"]["compression_depth"], 5);
        let exact = gateway.client().get(&format!("/api/sessions/{id}?pin=exact")).await.expect(200);
        assert_eq!((&exact["id"], &exact["provenance"]["compression_depth"]), (&json!(id), &json!(depth)));
        let parent = depth.checked_sub(1).map(|above| ids[above].clone());
        assert_eq!(exact["parent_session_id"].as_str(), parent.as_deref(), "one chain");
    }
    let rows = gateway.client().get("/api/sessions/trip/messages?limit=200").await;
    let seqs: Vec<_> = data(&rows).iter().map(|row| row["seq"].as_i64()).collect();
    assert!(seqs.is_sorted() && seqs.len() == number * 2 + 5 + 12, "each once: {seqs:?}");
}

#[tokio::test]
async fn a_client_that_sends_its_whole_history_adds_only_what_is_new() {
    let gateway = small_window_gateway(&[]).await;
    let mut history = Vec::new();
    for number in 1..=12 {
        history.push(user(&words(number)));
        let answer = gateway.in_session("trip").post_json(CHAT, &chat(&history)).await.expect(200);
        history.push(answer["choices"][0]["message"].clone());
        let said: Vec<_> = gateway.rows("trip").await.into_iter().filter(|row| row["kind"] != "summary").collect();
        assert_eq!(said.len(), number * 2, "nothing twice, nothing lost");
    }
    assert!(!summaries(&gateway).is_empty());
    assert!(context(&gateway).len() < 12, "{:?}", context(&gateway));
}

#[tokio::test]
async fn what_goes_upstream_is_what_the_model_view_shows_and_begins_as_the_call_before() {
    let gateway = small_window_gateway(&[("HERMA_COMPACTION__KEEP_RECENT", "0.5")]).await;
    let mut before: Option<String> = None;
    let mut compactions = 0;
    for number in 1..=16 {
        let session = gateway.say("trip", &words(number)).await.expect(200)["session"].clone();
        let requests = gateway.upstream.requests();
        let call = requests.iter().rfind(|request| !super::is_summary(request)).expect("a call").clone();
        let shown = data(&gateway.client().get("/api/sessions/trip/messages?view=model&limit=200").await);
        let (answer, shown) = shown.split_last().expect("an answer");
        assert_eq!((call.messages(), &answer["role"]), (shown, &json!("assistant")), "turn {number}");
        let sent = serde_json::to_string(call.messages()).expect("JSON");
        let rotated = session["rotated"] == true;
        compactions += usize::from(rotated);
        if let Some(before) = before.filter(|_| !rotated) {
            assert!(sent.starts_with(before.trim_end_matches(']')), "turn {number} keeps the provider's cache warm");
        }
        before = Some(sent);
    }
    assert!(compactions >= 2, "{compactions}");
}

#[tokio::test]
async fn a_repeated_answer_tells_what_the_first_one_told() {
    let gateway = small_window_gateway(&[]).await;
    let client = gateway.in_session("trip").header("Idempotency-Key", "one");
    let first = client.post_json(CHAT, &chat(&[user(&words(0))])).await.expect(200);
    for number in 1..=3 {
        gateway.say("trip", &words(number)).await.expect(200);
    }
    gateway.say("trip", &many_words(5)).await.expect(200);
    let again = client.post_json(CHAT, &chat(&[user(&words(0))])).await.expect(200);
    assert_eq!(first["session"], again["session"]);
}

//! `X-Hermes-Session-Key`: stored at first use, echoed, never changed.

use crate::support::{CHAT, SESSION_KEY, TestGateway, chat, error, streamed, user};

const KEY: &str = "agent:main:webui:dm:user-42";

#[tokio::test]
async fn the_key_is_stored_at_its_first_use_and_echoed_from_then_on() {
    let mut gateway = TestGateway::start().await;
    let keyless = gateway.say("s", "one").await;
    assert_eq!(keyless.header(SESSION_KEY), None);
    let keyed = gateway.in_session("s").header(SESSION_KEY, KEY).post_json(CHAT, &chat(&[user("two")])).await;
    assert_eq!(keyed.header(SESSION_KEY), Some(KEY));
    assert_eq!(gateway.say("s", "three").await.header(SESSION_KEY), Some(KEY));
    gateway.restart().await;
    let mut stream = gateway.in_session("s").post_stream(CHAT, &streamed(chat(&[user("four")]))).await;
    assert_eq!(stream.header(SESSION_KEY), Some(KEY));
    assert_eq!(stream.text().await, "reply to: four");
    assert_eq!(gateway.sessions().await[0]["session_key"], KEY);
}

#[tokio::test]
async fn another_key_is_a_conflict_that_leaves_nothing_behind() {
    let gateway = TestGateway::start().await;
    let ask = async |key: &str, stream: bool| {
        let body = chat(&[user("hello")]);
        let body = if stream { streamed(body) } else { body };
        gateway.in_session("s").header(SESSION_KEY, key).post_json(CHAT, &body).await
    };
    ask(KEY, false).await.expect(200);
    for stream in [false, true] {
        let refused = ask("somebody else", stream).await;
        assert_eq!(error(&refused, 409)["code"], "session_key_conflict");
        assert_eq!(refused.header("x-should-retry"), Some("false"));
    }
    assert_eq!(gateway.transcript("s").await, ["user: hello", "assistant: reply to: hello"]);
    assert_eq!(gateway.upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_key_is_no_name_of_a_conversation() {
    let gateway = TestGateway::start().await;
    let client = gateway.client().header(SESSION_KEY, KEY);
    for text in ["one", "two"] {
        client.post_json(CHAT, &chat(&[user(text)])).await.expect(200);
        assert_eq!(gateway.context(), [format!("user: {text}")]);
    }
    let rows = gateway.sessions().await;
    assert!(rows.len() == 2 && rows.iter().all(|row| row["session_key"] == KEY), "{rows:?}");
}

#[tokio::test]
async fn a_key_may_hold_what_an_id_may_not() {
    let gateway = TestGateway::start().await;
    for key in ["team/ops/../x", "büro 7", "a\\b"] {
        let client = gateway.client().header(SESSION_KEY, key);
        let answer = client.post_json(CHAT, &chat(&[user("hello")])).await;
        answer.expect(200);
        let echoed = answer.headers.get(SESSION_KEY).map(|value| value.as_bytes().to_vec());
        assert_eq!(echoed.as_deref(), Some(key.as_bytes()));
    }
}

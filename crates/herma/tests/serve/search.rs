//! Search, as a person uses it to find an old message.

use herma_gateway::access::{KeyGrant, create_key};
use herma_model::KeyScope;
use herma_store::Store;
use herma_store_sqlite::SqliteStore;
use herma_testkit::{Client, Launch, Reply};
use serde_json::{Value, json};

use crate::support::{CHAT, SESSION_ID, SESSION_KEY, TestGateway, chat, data, error, user};

/// A percent-encoded query value.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

async fn rows(client: &Client, typed: &str, more: &str) -> Vec<Value> {
    data(&client.get(&format!("/api/search?q={}{more}", encoded(typed))).await)
}

/// The snippets, sorted.
async fn snippets(client: &Client, typed: &str) -> Vec<String> {
    let rows = rows(client, typed, "&group=none").await;
    let mut snippets: Vec<_> = rows.iter().map(|row| row["snippet"].as_str().expect("a snippet").to_owned()).collect();
    snippets.sort();
    snippets
}

async fn say(gateway: &TestGateway, session: &str, question: &str, answer: &str) {
    gateway.upstream.push(Reply::text(answer));
    gateway.say(session, question).await.expect(200);
}

#[tokio::test]
async fn what_was_said_is_found_by_words_phrases_beginnings_and_parts_also_after_a_restart() {
    let mut gateway = TestGateway::start().await;
    say(&gateway, "trip", "Where is the Café <de Flore>?", "On the left bank & near the lighthouse").await;
    say(&gateway, "asia", "東京都の黒猫", "我们用GPT模型，한글날").await;
    let expected: &[(&str, &[&str])] = &[
        ("cafe", &["Where is the <mark>Café</mark> &lt;de Flore&gt;?"]),
        ("LEFT bank", &["On the <mark>left</mark> <mark>bank</mark> &amp; near the lighthouse"]),
        ("\"left bank\"", &["On the <mark>left bank</mark> &amp; near the lighthouse"]),
        ("\"bank left\"", &[]),
        ("lightho*", &["On the left bank &amp; near the <mark>lighthouse</mark>"]),
        ("house", &["On the left bank &amp; near the light<mark>house</mark>"]),
        ("猫", &["東京都の黒<mark>猫</mark>"]),
        ("京都", &["東<mark>京都</mark>の黒猫"]),
        ("模型", &["我们用GPT<mark>模型</mark>，한글날"]),
        ("글", &["我们用GPT模型，한<mark>글</mark>날"]),
        ("bank -lighthouse", &[]),
        ("nowhere", &[]),
    ];
    for _ in 0..2 {
        for (typed, found) in expected {
            assert_eq!(snippets(&gateway.client(), typed).await, *found, "{typed}");
        }
        gateway.restart().await;
    }
    let plain = rows(&gateway.client(), "flore", "&marks=none").await;
    assert_eq!(plain[0]["snippet"], "Where is the Café <de Flore>?");
}

#[tokio::test]
async fn a_row_says_where_it_was_said() {
    let gateway = TestGateway::start().await;
    let handle = gateway.say("trip", "a harbour").await.expect(200)["session"]["conversation_id"].clone();
    let said = &gateway.rows("trip").await[0];
    assert_eq!(
        rows(&gateway.client(), "harbour", "").await,
        [json!({
            "object": "search_result", "matched": "message", "snippet": "a <mark>harbour</mark>",
            "conversation_id": handle,
            "session_id": "trip", "name": "trip", "kind": "main", "origin_kind": "main", "title": "a harbour",
            "message_id": said["id"],
            "role": "user", "status": "complete", "created_at": said["created_at"],
        })]
    );
    let capabilities = gateway.client().get("/v1/capabilities").await.expect(200);
    assert_eq!(
        (&capabilities["features"]["search"], &capabilities["limits"]["search_characters"]),
        (&json!(true), &json!(1000))
    );
}

#[tokio::test]
async fn what_a_compaction_summarised_is_still_found_and_the_summary_is_not() {
    let herma = Launch::serve(env!("CARGO_BIN_EXE_herma")).args(["--context-window", "8000"]).start().await;
    let client = herma.client().header(SESSION_ID, "trip");
    for number in 1..=12 {
        let mut body =
            chat(&[user(&format!("landmark{number}: {}", "we went on and saw one more thing. ".repeat(16)))]);
        body["model"] = json!("offline");
        client.post_json(CHAT, &body).await.expect(200);
    }
    let before = rows(&client, "landmark1", "&group=none&role=user").await;
    assert_eq!(before.len(), 4, "as a word, and as a part of landmark10, 11 and 12");
    let all = rows(&client, "landmark1", "&group=none&limit=200").await;
    let head =
        client.post_json("/api/sessions/trip/compactions", &json!({})).await.expect(200)["session_after"].clone();
    assert_eq!(rows(&client, "landmark1", "&group=none&role=user").await, before);
    assert_eq!(rows(&client, "landmark1", "&group=none&limit=200").await, all, "not in the summary");
    let mut body = chat(&[user("lighthouse")]);
    body["model"] = json!("offline");
    client.post_json(CHAT, &body).await.expect(200);
    let after = &rows(&client, "lighthouse", "&role=user").await[0];
    assert_eq!(
        (&after["session_id"], &after["kind"], &after["origin_kind"]),
        (&head, &json!("continuation"), &json!("main"))
    );
    assert_eq!(rows(&client, "kind:continuation lighthouse", "").await.len(), 0, "a colon is no operator");
    assert_eq!(rows(&client, "lighthouse", "&kind=continuation&role=user").await.len(), 1);
}

#[tokio::test]
async fn search_finds_nothing_of_another_tenant_of_another_key_or_deleted() {
    let gateway = TestGateway::start().await;
    say(&gateway, "open", "a secret", "fine").await;
    let keyed = gateway.in_session("keyed").header(SESSION_KEY, "agent:one");
    let handle =
        keyed.post_json(CHAT, &chat(&[user("another secret")])).await.expect(200)["session"]["conversation_id"].clone();
    let store = SqliteStore::open(&gateway.herma.data().join("herma.db")).expect("the store");
    let stranger = create_key(&store, KeyGrant::of("elsewhere")).await.expect("a key").secret;
    let narrow = create_key(&store, KeyGrant::of("default").for_session_keys(KeyScope::parse(Some("agent:two"))))
        .await
        .expect("a key")
        .secret;
    let client = gateway.client();
    for indexed in [false, true] {
        if indexed {
            store.index_all().await.expect("an index");
        }
        let by = |key: &str| Client::new(gateway.herma.base_url()).key(key);
        assert_eq!(rows(&client, "secret", "").await.len(), 2);
        assert_eq!(rows(&client, "secret", "&session_key=agent%3Aone").await.len(), 1);
        assert_eq!(rows(&by(&stranger), "secret", "").await.len(), 0);
        assert_eq!(snippets(&by(&narrow), "secret").await, ["a <mark>secret</mark>"]);
        assert_eq!(rows(&by(&narrow), "secret", "&session_key=agent%3Aone").await.len(), 0);
    }
    client.delete(&format!("/v1/conversations/{}", handle.as_str().expect("a handle"))).await.expect(200);
    assert_eq!(snippets(&client, "secret").await, ["a <mark>secret</mark>"]);
    store.index_all().await.expect("an index");
    assert_eq!(snippets(&client, "secret").await, ["a <mark>secret</mark>"]);
    store.close().await;
}

#[tokio::test]
async fn pages_have_every_conversation_once_or_every_hit() {
    let gateway = TestGateway::start().await;
    for number in 0..7 {
        say(&gateway, &format!("s{}", number % 4), &format!("apple {number}"), "a pineapple").await;
    }
    for (group, expected) in [("conversation", 4), ("none", 14)] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page =
                gateway.client().get(&format!("/api/search?q=apple&group={group}&limit=3{cursor}")).await.expect(200);
            let rows = page["data"].as_array().expect("rows");
            assert!(rows.len() <= 3);
            let named = if group == "none" { "message_id" } else { "conversation_id" };
            seen.extend(rows.iter().map(|row| row[named].as_str().expect("an id").to_owned()));
            let Some(next) = page["next_cursor"].as_str() else {
                assert_eq!(page["has_more"], false);
                break;
            };
            cursor = format!("&cursor={next}");
            let other = gateway.client().get(&format!("/api/search?q=pear&group={group}{cursor}")).await;
            assert_eq!(error(&other, 400)["param"], "cursor", "a cursor of another search");
        }
        let all = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!((seen.len(), all), (expected, expected), "{group}");
    }
}

#[tokio::test]
async fn filters_narrow_a_search() {
    let gateway = TestGateway::start().await;
    say(&gateway, "trip", "apple", "an apple").await;
    for (filter, count) in [
        ("", 2),
        ("&kind=main&origin_kind=main&user_facing=true&source=api", 2),
        ("&kind=branch", 0),
        ("&origin_kind=background", 0),
        ("&user_facing=false", 0),
        ("&source=cli", 0),
        ("&session_key=nobody", 0),
        ("&role=assistant", 1),
        ("&role=tool", 0),
        ("&since=2020-01-01&until=2999-01-01T00:00:00Z", 2),
        ("&since=2999-01-01", 0),
        ("&until=2020-01-01T00:00:00%2B02:00", 0),
    ] {
        assert_eq!(rows(&gateway.client(), "apple", &format!("&group=none{filter}")).await.len(), count, "{filter}");
    }
}

#[tokio::test]
async fn what_cannot_be_searched_is_refused_with_the_reason() {
    let gateway = TestGateway::start().await;
    for (query, param, says) in [
        ("", "q", "nothing to search for"),
        ("?q=", "q", "nothing to search for"),
        ("?q=%20%09", "q", "nothing to search for"),
        ("?q=AND%20OR%20NOT", "q", "only operators"),
        ("?q=%22%22%20*%20-", "q", "only operators"),
        ("?q=-apple", "q", "only operators"),
        ("?q=%F0%9F%91%8D%21", "q", "only operators"),
        (&format!("?q={}", "x".repeat(10_000)), "q", "1000 characters"),
        (&format!("?q={}", "x+".repeat(100)), "q", "64 words"),
        ("?q=x&kind=human", "kind", "main"),
        ("?q=x&origin_kind=1", "origin_kind", "main"),
        ("?q=x&user_facing=yes", "user_facing", "'true' or 'false'"),
        ("?q=x&role=system", "role", "assistant"),
        ("?q=x&since=yesterday", "since", "2026-03-04"),
        ("?q=x&until=1", "until", "2026-03-04"),
        ("?q=x&session_key=%00", "session_key", "session key"),
        ("?q=x&group=all", "group", "'none'"),
        ("?q=x&marks=bold", "marks", "'html'"),
        ("?q=x&limit=0", "limit", "200"),
        ("?q=x&cursor=1.2", "cursor", "same search"),
        ("?q=x&query=y", "query", "not a parameter"),
    ] {
        let error = error(&gateway.client().get(&format!("/api/search{query}")).await, 400);
        assert_eq!((&error["param"], &error["code"]), (&json!(param), &json!("invalid_request")), "{query}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(says)), "{error}");
    }
    for typed in ["NEAR(a b)", "a:b", "^a", "{a}", "a + b", "'; DROP TABLE messages; --", "a\u{0}b", "\"", "a\"b", "(("]
    {
        let answer = gateway.client().get(&format!("/api/search?q={}", encoded(typed))).await;
        assert!(answer.status == 200 || answer.status == 400, "{typed}: {}", answer.text());
    }
}

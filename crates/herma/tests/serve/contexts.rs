//! Contexts: token counts, and summaries for clients that keep their own context. A client can also set the compaction
//! threshold and allow truncation.

use herma_testkit::Reply;
use serde_json::{Value, json};

use crate::support::{TestGateway, error, with};

const RESPONSES: &str = "/v1/responses";
const TOKENS: &str = "/v1/responses/input_tokens";
const COMPACT: &str = "/v1/responses/compact";

fn said(text: &str) -> Value {
    json!({"model": "scripted", "input": text})
}

fn in_trip(text: &str) -> Value {
    with(said(text), "conversation", json!("trip"))
}

async fn tokens(gateway: &TestGateway, body: &Value) -> u64 {
    let counted = gateway.client().post_json(TOKENS, body).await.expect(200);
    assert_eq!(counted["object"], "response.input_tokens");
    counted["input_tokens"].as_u64().unwrap()
}

#[tokio::test]
async fn tokens_are_counted_of_all_that_the_model_would_be_shown_and_nothing_is_written() {
    let gateway = TestGateway::start().await;
    let alone = tokens(&gateway, &said("hello")).await;
    assert!((1..100).contains(&alone));
    let long = with(said("hello"), "instructions", json!("word ".repeat(400)));
    assert!(tokens(&gateway, &long).await > alone + 300);
    assert_eq!(tokens(&gateway, &in_trip("hello")).await, alone, "an unknown name is a conversation without a history");
    assert_eq!(gateway.sessions().await.len(), 0);
    let first = gateway.client().post_json(RESPONSES, &in_trip(&"word ".repeat(400))).await.expect(200);
    for body in [in_trip("hello"), with(said("hello"), "previous_response_id", first["id"].clone())] {
        assert!(tokens(&gateway, &body).await > alone);
    }
    let no_input = json!({"model": "scripted", "conversation": "trip"});
    assert!(tokens(&gateway, &no_input).await > 0);
    let unknown = with(said("x"), "conversation", json!(format!("conv_{}", "0".repeat(32))));
    error(&gateway.client().post_json(TOKENS, &unknown).await, 404);
    assert_eq!((gateway.rows("trip").await.len(), gateway.upstream.requests().len()), (2, 1));
}

#[tokio::test]
async fn a_context_is_summarised_for_a_client_that_sends_the_summary_back() {
    let gateway = TestGateway::start().await;
    let history = json!([
        {"role": "user", "content": format!("The code is 4711. {}", "word ".repeat(200))},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "Remember it."},
    ]);
    gateway.upstream.push(Reply::text("The user's code is 4711."));
    let body = with(with(said(""), "input", history), "store", json!(false));
    let done = gateway.client().post_json(COMPACT, &body).await.expect(200);
    assert_eq!(done["object"], "response.compaction");
    let output = done["output"].as_array().unwrap();
    assert_eq!(output.last().unwrap()["type"], "compaction");
    assert_eq!(output[0]["content"][0]["text"], "Remember it.", "the last of what people said stays word for word");
    assert!(done["usage"]["total_tokens"].as_u64().unwrap() > 0);
    let asked = gateway.upstream.last_request().last_user_text();
    assert!(asked.contains("4711") && asked.contains("Write a summary"));
    let mut input = output.clone();
    input.push(json!({"role": "user", "content": "What is the code?"}));
    let next = with(with(said(""), "input", json!(input)), "store", json!(false));
    gateway.client().post_json(RESPONSES, &next).await.expect(200);
    let context = gateway.context();
    assert!(context[1].contains("The user's code is 4711."), "{context:?}");
    assert_eq!(context[2], "user: What is the code?");
    assert_eq!(gateway.sessions().await.len(), 0);
}

#[tokio::test]
async fn the_last_question_is_kept_however_long_it_is_if_it_has_no_answer_yet() {
    let gateway = TestGateway::start().await;
    let question = format!("What about this? {}", "word ".repeat(400));
    let greeting = json!({"role": "user", "content": "Hello."});
    let answer = json!({"role": "assistant", "content": "Hello!"});
    let last = json!({"role": "user", "content": question});
    for history in [json!([greeting, answer, last]), json!([greeting, last])] {
        gateway.upstream.push(Reply::text("They greeted each other."));
        let body = with(with(said(""), "input", history), "store", json!(false));
        let done = gateway.client().post_json(COMPACT, &body).await.expect(200);
        let output = done["output"].as_array().expect("items");
        assert_eq!((output.len(), &output[0]["content"][0]["text"]), (2, &json!(question)));
    }
}

#[tokio::test]
async fn a_stored_chain_is_summarised_and_stays_as_it_is() {
    let gateway = TestGateway::start().await;
    let first = gateway.client().post_json(RESPONSES, &in_trip("one")).await.expect(200);
    gateway.upstream.push(Reply::text("One was said."));
    let body = json!({"model": "scripted", "previous_response_id": first["id"]});
    let done = gateway.client().post_json(COMPACT, &body).await.expect(200);
    assert_eq!(done["output"].as_array().unwrap().last().unwrap()["type"], "compaction");
    assert_eq!(gateway.transcript("trip").await, ["user: one", "assistant: reply to: one"]);
    let nameless = gateway.client().post_json(COMPACT, &json!({"input": "hi"})).await;
    assert_eq!(error(&nameless, 400)["param"], "model");
    let empty = gateway.client().post_json(COMPACT, &json!({"model": "scripted"})).await;
    assert_eq!(error(&empty, 400)["param"], "input");
    gateway.upstream.push(Reply::status(400, "no"));
    gateway.upstream.push(Reply::status(400, "no"));
    error(&gateway.client().post_json(COMPACT, &body).await, 502);
    let gone = json!({"model": "scripted", "previous_response_id": format!("resp_{}", "0".repeat(32))});
    error(&gateway.client().post_json(COMPACT, &gone).await, 404);
}

#[tokio::test]
async fn a_client_says_from_how_many_tokens_on_its_context_is_compacted() {
    let gateway = TestGateway::start().await;
    let managed = |text: &str| {
        with(in_trip(text), "context_management", json!([{"type": "compaction", "compact_threshold": 1000}]))
    };
    for number in 0..4 {
        gateway.client().post_json(RESPONSES, &in_trip(&format!("{number} {}", "word ".repeat(300)))).await.expect(200);
    }
    let as_always = gateway.client().post_json(RESPONSES, &in_trip("still")).await.expect(200);
    assert_eq!(as_always["session"]["rotated"], false, "no context window is set");
    let high = json!([{"type": "compaction", "compact_threshold": 1_000_000}]);
    let early = with(in_trip("not yet"), "context_management", high);
    let early = gateway.client().post_json(RESPONSES, &early).await.expect(200);
    assert_eq!(early["session"]["rotated"], false, "the context is far below the threshold");
    gateway.upstream.push(Reply::text("Numbers were said."));
    let moved = gateway.client().post_json(RESPONSES, &managed("now")).await.expect(200);
    assert_eq!((&moved["session"]["rotated"], &moved["output"][0]["type"]), (&json!(true), &json!("compaction")));
    assert!(gateway.context()[0].contains("Numbers were said."));
    let bad = with(in_trip("x"), "context_management", json!([{"type": "compaction", "compact_threshold": 0}]));
    let refused = error(&gateway.client().post_json(RESPONSES, &bad).await, 400);
    assert_eq!(refused["param"], "context_management[0].compact_threshold");
}

#[tokio::test]
async fn a_context_that_does_not_fit_is_cut_if_its_client_allows_it() {
    let gateway =
        TestGateway::with_settings(&[("HERMA_CONTEXT_WINDOW", "1000"), ("HERMA_COMPACTION__MODE", "off")]).await;
    let long = |number: u32| format!("{number} {}", "word ".repeat(250));
    for number in 0..2 {
        gateway.client().post_json(RESPONSES, &in_trip(&long(number))).await.expect(200);
    }
    let refused = gateway.client().post_json(RESPONSES, &in_trip(&long(3))).await;
    assert_eq!(error(&refused, 400)["code"], "context_length_exceeded");
    let cut = with(in_trip(&long(3)), "truncation", json!("auto"));
    let answer = gateway.client().post_json(RESPONSES, &cut).await.expect(200);
    assert_eq!(answer["truncation"], "auto");
    let context = gateway.context();
    assert!(context[0].starts_with("user: 1 ") && context.last().unwrap().starts_with("user: 3 "), "{context:?}");
    assert_eq!(gateway.rows("trip").await.len(), 6, "all messages stay stored");
    let history: Vec<Value> = (0..5).map(|number| json!({"role": "user", "content": long(number)})).collect();
    let stateless =
        with(with(with(said(""), "input", json!(history)), "store", json!(false)), "truncation", json!("auto"));
    gateway.client().post_json(RESPONSES, &stateless).await.expect(200);
    let cut = gateway.context();
    assert!(cut[0].starts_with("user: 2 "), "{cut:?}");
    let new = with(with(said(""), "input", json!(history)), "truncation", json!("auto"));
    gateway.client().post_json(RESPONSES, &new).await.expect(200);
    assert_eq!(gateway.context(), cut, "a conversation that begins too long is cut like any other");
}

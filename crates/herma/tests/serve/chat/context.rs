//! What the model server gets: the transcript and the client's own fields, and no data of the gateway.

use serde_json::{Value, json};

use crate::support::{
    CHAT, CONVERSATION_ID, SESSION_KEY, TestGateway, assistant, chat, error, lines, streamed, system, user, with,
};

#[tokio::test]
async fn nothing_of_the_gateways_own_reaches_the_model_server() {
    let gateway = TestGateway::start().await;
    let client =
        gateway.in_session("secret-session").header(SESSION_KEY, "secret-key").header("x-request-id", "secret-request");
    let client = client.header("idempotency-key", "secret-idempotency");
    let first = client.post_json(CHAT, &chat(&[system("Be brief."), user("hello")])).await;
    let again = gateway.in_session("secret-session");
    again.post_stream(CHAT, &streamed(chat(&[user("again")]))).await.rest().await;

    let conversation = first.header(CONVERSATION_ID).expect("a handle").trim_start_matches("conv_").to_owned();
    let turn = first.expect(200)["id"].as_str().expect("an id").trim_start_matches("chatcmpl-").to_owned();
    for request in gateway.upstream.requests() {
        let head = format!("{:?}", request.headers).to_lowercase();
        let body = String::from_utf8_lossy(&request.raw).to_lowercase();
        for word in ["secret", "conv_", "sess_", "msg_", "turn_", &conversation, &turn, "hermes", "provenance", "kind"]
        {
            assert!(!body.contains(word), "{word} in {body}");
        }
        for word in ["secret", "hermes", "test-key", &conversation, &turn] {
            assert!(!head.contains(word), "{word} in {head}");
        }
    }
    assert_eq!(
        gateway.upstream.requests()[0].body,
        json!({"model": "scripted", "messages": [system("Be brief."), user("hello")]})
    );
    assert_eq!(
        gateway.upstream.last_request().body,
        json!({
            "model": "scripted",
            "messages": [system("Be brief."), user("hello"), assistant("reply to: hello"), user("again")],
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[tokio::test]
async fn system_messages_hold_until_others_replace_them_and_are_not_part_of_the_transcript() {
    let mut gateway = TestGateway::start().await;
    let developer = json!({"role": "developer", "content": "Use metres."});
    let ask = async |gateway: &TestGateway, messages: &[Value]| {
        gateway.in_session("s").post_json(CHAT, &chat(messages)).await.expect(200);
        gateway.context()
    };
    let context = ask(&gateway, &[system("Be brief."), developer, user("one")]).await;
    assert_eq!(context, ["system: Be brief.", "developer: Use metres.", "user: one"]);
    gateway.restart().await;
    let context = ask(&gateway, &[user("two")]).await;
    assert_eq!(context[..3], ["system: Be brief.", "developer: Use metres.", "user: one"]);
    let context = ask(&gateway, &[user("three"), system("Be long.")]).await;
    assert_eq!((context[0].as_str(), context[1].as_str()), ("system: Be long.", "user: one"));
    assert_eq!(context.len(), 6);
    let context = ask(&gateway, &[user("four")]).await;
    assert_eq!(context[0], "system: Be long.");
    assert_eq!(context.iter().filter(|line| line.starts_with("system") || line.starts_with("dev")).count(), 1);
    let transcript = gateway.transcript("s").await;
    assert!(
        transcript.len() == 8
            && transcript.iter().all(|line| line.starts_with("user") || line.starts_with("assistant"))
    );
    assert_eq!(gateway.model_view("s").await[0], "system: Be long.");
}

#[tokio::test]
async fn fields_for_the_model_server_arrive_as_the_client_wrote_them() {
    let gateway = TestGateway::start().await;
    let fields = r#""temperature":0.70,"top_p":1.0,"max_completion_tokens":64,"stop":["a","b"],"seed":-7,"logit_bias":{"50256":-100},"user":"anna","presence_penalty":1e-1,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"b":1,"a":2}}},"x_vendor":{"z":[1.50,1e2,18446744073709551616],"a":"\u00e4"}"#;
    let body = format!(r#"{{"messages":[{{"role":"user","content":"hello"}}],{fields},"model":"scripted"}}"#);
    gateway.client().post_bytes(CHAT, body).await.expect(200);
    let sent = String::from_utf8_lossy(&gateway.upstream.last_request().raw).into_owned();
    assert_eq!(sent, format!(r#"{{"model":"scripted","messages":[{{"role":"user","content":"hello"}}],{fields}}}"#));
}

#[tokio::test]
async fn what_herma_does_itself_is_not_asked_of_the_model_server() {
    let gateway = TestGateway::start().await;
    let body = json!({"store": true, "metadata": {"a": "b"}, "n": 1, "top_p": null, "messages": [user("hello")]});
    gateway.client().post_json(CHAT, &body).await.expect(200);
    assert_eq!(gateway.upstream.last_request().body, json!({"model": "scripted", "messages": [user("hello")]}));
}

#[tokio::test]
async fn more_than_one_choice_is_refused_clearly() {
    let gateway = TestGateway::start().await;
    for body in [chat(&[user("hello")]), streamed(chat(&[user("hello")]))] {
        let error = error(&gateway.in_session("s").post_json(CHAT, &with(body, "n", json!(2))).await, 400);
        assert_eq!((error["code"].as_str(), error["param"].as_str()), (Some("invalid_request"), Some("n")));
    }
    assert_eq!((gateway.upstream.requests().len(), gateway.sessions().await.len()), (0, 0));
}

#[tokio::test]
async fn images_and_other_parts_are_stored_and_sent_as_they_came() {
    let gateway = TestGateway::start().await;
    let parts = json!([
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ]);
    let message = json!({"role": "user", "content": parts, "name": "anna"});
    gateway.in_session("s").post_json(CHAT, &chat(std::slice::from_ref(&message))).await.expect(200);
    gateway.say("s", "and now?").await.expect(200);
    let sent = gateway.upstream.last_request();
    assert_eq!(sent.messages(), [message, assistant("reply to: What is this?"), user("and now?")]);
    let rows = gateway.rows("s").await;
    assert_eq!((&rows[0]["content"], &rows[0]["name"]), (&parts, &json!("anna")));
}

#[tokio::test]
async fn a_model_goes_by_the_name_the_client_used_unless_it_means_the_default() {
    let gateway = TestGateway::start().await;
    for (asked, sent) in [
        (Value::Null, "scripted"),
        (json!(""), "scripted"),
        (json!("default"), "scripted"),
        (json!("herma"), "scripted"),
        (json!("hermes-agent"), "scripted"),
        (json!("vendor/other-model:7b"), "vendor/other-model:7b"),
    ] {
        let answer = gateway.client().post_json(CHAT, &with(chat(&[user("hello")]), "model", asked.clone())).await;
        assert_eq!(answer.expect(200)["model"], sent, "{asked}");
        assert_eq!(gateway.upstream.last_request().model(), sent, "{asked}");
    }
}

#[tokio::test]
async fn what_a_model_server_adds_reaches_the_client_and_never_goes_back() {
    let gateway = TestGateway::start().await;
    let answer = json!({
        "id": "chatcmpl-theirs", "object": "chat.completion", "created": 1, "model": "scripted",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "finish_reason": "stop", "message":
            {"role": "assistant", "content": "42", "reasoning_content": "six times seven", "annotations": []}}],
    });
    gateway.upstream.push(herma_testkit::Reply::garbage(answer.to_string()));
    let body = gateway.say("s", "why?").await.expect(200);
    assert_eq!(body["choices"][0]["message"]["reasoning_content"], "six times seven");
    assert_eq!(body["system_fingerprint"], "fp_1");
    assert_ne!(body["id"], "chatcmpl-theirs");
    gateway.say("s", "more").await.expect(200);
    assert_eq!(lines(gateway.upstream.last_request().messages()), ["user: why?", "assistant: 42", "user: more"]);
    assert_eq!(gateway.upstream.last_request().messages()[1], assistant("42"));
}

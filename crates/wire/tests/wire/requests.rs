//! Whole requests, as real clients write them.

use std::fmt::Write;

use herma_wire::chat::{ChatRequest, parse};

fn shown(request: &ChatRequest) -> String {
    let ChatRequest { model, system, messages, indices, params, stream, include_usage, user } = request;
    let mut text = format!("model {model:?}, stream {stream}, include_usage {include_usage}, user {user:?}\n");
    for payload in system {
        writeln!(text, "system {}", payload.as_json()).unwrap();
    }
    for (said, index) in messages.iter().zip(indices) {
        writeln!(text, "[{index}] {} {}", said.role.as_str(), said.payload.as_json()).unwrap();
        writeln!(text, "    calls {:?}, extra {:?}, tokens {}", said.calls, said.extra, said.tokens).unwrap();
    }
    for (name, json) in &params.0 {
        writeln!(text, "{name} = {json}").unwrap();
    }
    text
}

#[test]
fn a_tool_round_from_the_python_sdk_has_one_canonical_form() {
    let request = parse(include_bytes!("../fixtures/python_sdk_tool_round.json")).unwrap();
    insta::assert_snapshot!(shown(&request), @r#"
    model Some("gpt-5"), stream true, include_usage true, user Some("user-42")
    system {"role":"system","content":"You are terse."}
    [1] user {"role":"user","content":"Wie ist das Wetter in Köln?"}
        calls [], extra None, tokens 18
    [2] assistant {"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Köln\"}"}}]}
        calls ["call_1"], extra Some("{\"message\":{\"reasoning_content\":\"They want the weather.\"}}"), tokens 41
    [3] tool {"role":"tool","content":"{\"celsius\": 21}","tool_call_id":"call_1"}
        calls ["call_1"], extra None, tokens 21
    temperature = 0.20
    tools = [{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]
    tool_choice = "auto"
    user = "user-42"
    "#);
}

#[test]
fn unknown_parts_and_fields_are_kept_as_they_came() {
    let request = parse(include_bytes!("../fixtures/pretty_images_and_unknown_fields.json")).unwrap();
    insta::assert_snapshot!(shown(&request), @r#"
    model None, stream false, include_usage false, user None
    system {"role":"developer","content":[{"type":"text","text":"Be kind."}]}
    [0] user {"role":"user","content":[{"type":"text","text":"What is this? ","cache_control":{"type":"ephemeral"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}},{"type":"input_audio","input_audio":{"format":"wav","data":"UklG"}},{"type":"hologram","hologram":[1.50,2e3]}],"name":"ann","x_client":{"draft":false}}
        calls [], extra None, tokens 88
    [2] assistant {"role":"assistant","content":[{"type":"text","text":"A cat."}],"x_mood":"calm"}
        calls [], extra None, tokens 24
    max_completion_tokens = 100
    stop = ["\n\n","END"]
    response_format = {"type":"json_object"}
    vendor_options = {"top_k":40,"ratio":1.0}
    temperature = 0.9
    "#);
}

#[test]
fn the_least_request_asks_for_nothing_else() {
    let request = parse(br#"{"messages":[{"role":"user","content":"hi"}]}"#).unwrap();
    insta::assert_snapshot!(shown(&request), @r#"
    model None, stream false, include_usage false, user None
    [0] user {"role":"user","content":"hi"}
        calls [], extra None, tokens 11
    "#);
}

#[test]
fn fields_that_are_null_are_absent() {
    let body = br#"{"messages":[{"role":"user","content":"hi","name":null}],"model":null,"stream":null,"stream_options":null,
        "n":null,"user":null,"temperature":null,"tools":null,"max_tokens":null,"response_format":null,"functions":null}"#;
    assert_eq!(parse(body), parse(br#"{"messages":[{"role":"user","content":"hi"}]}"#));
}

#[test]
fn of_a_repeated_field_the_last_one_counts() {
    let request =
        parse(br#"{"messages":[],"messages":[{"role":"user","content":"a","content":"b"}],"model":"x","model":"y"}"#)
            .unwrap();
    assert_eq!(request.model.as_deref(), Some("y"));
    assert_eq!(request.messages[0].payload.as_json(), r#"{"role":"user","content":"b"}"#);
}

#[test]
fn numbers_are_passed_on_digit_by_digit() {
    let request = parse(
        br#"{"messages":[{"role":"user","content":"hi"}],"temperature":0.70,"x":{"big":123456789012345678901234567890}}"#,
    )
    .unwrap();
    assert_eq!(request.params.get("temperature"), Some("0.70"));
    assert_eq!(request.params.get("x"), Some(r#"{"big":123456789012345678901234567890}"#));
}

#[test]
fn an_assistant_that_says_nothing_has_an_empty_text() {
    for spelling in [r#"{"role":"assistant"}"#, r#"{"content":null,"role":"assistant","tool_calls":[],"audio":null}"#] {
        let request = parse(format!(r#"{{"messages":[{spelling}]}}"#).as_bytes()).unwrap();
        assert_eq!(request.messages[0].payload.as_json(), r#"{"role":"assistant","content":""}"#);
    }
}

#[test]
fn a_refusal_is_sent_back_as_one() {
    let request = parse(br#"{"messages":[{"role":"assistant","content":null,"refusal":"No.","name":"bot"}]}"#).unwrap();
    assert_eq!(
        request.messages[0].payload.as_json(),
        r#"{"role":"assistant","content":null,"name":"bot","refusal":"No."}"#
    );
}

#[test]
fn a_call_of_another_kind_is_passed_through() {
    let call = r#"{"id":"c","type":"custom","custom":{"name":"shell","input":"ls"}}"#;
    let request =
        parse(format!(r#"{{"messages":[{{"role":"assistant","tool_calls":[{call}]}}]}}"#).as_bytes()).unwrap();
    assert_eq!(
        request.messages[0].payload.as_json(),
        format!(r#"{{"role":"assistant","content":null,"tool_calls":[{call}]}}"#)
    );
    assert_eq!(&*request.messages[0].calls[0], "c");
}

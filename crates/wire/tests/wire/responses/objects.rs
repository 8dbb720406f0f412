//! Response objects and items.

use herma_model::{Message, MessageStatus, Role, Seq, SessionId, Timestamp, TurnId, Utterance};
use herma_testkit::RESPONSE_FIELDS;
use herma_wire::chat::{assistant_utterance, parse};
use herma_wire::responses::{
    About, Echo, Item, ItemStatus, ResponseObject, ResponseOutcome, ResponseState, item_list, items_of, output_items,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{MESSAGE, about, compaction, ending};

fn object(about: &About, state: &ResponseState, output: &[Item]) -> String {
    let ending = ending(ResponseOutcome::Completed);
    let object =
        ResponseObject { about, state, completed_at: Some(ending.at), output, usage: ending.usage, session: None };
    String::from_utf8(object.to_json()).unwrap()
}

#[test]
fn every_required_field_is_there_whatever_the_request_said() {
    for state in
        [ResponseState::Queued, ResponseState::Ended(ResponseOutcome::Completed), ResponseState::Ended(super::failed())]
    {
        let bare = About { echo: Echo::default(), ..about(&json!({})) };
        let json: Value = serde_json::from_str(&object(&bare, &state, &[])).unwrap();
        for name in RESPONSE_FIELDS {
            assert!(json.get(name).is_some(), "{name}");
        }
        assert_eq!(json["completed_at"].is_null(), json["status"] != "completed");
    }
}

#[test]
fn a_response_repeats_its_request() {
    let mut about = about(&json!({
        "instructions": "Be \"terse\".", "metadata": {"k": "v"}, "tools": [{"type": "function", "name": "f"}],
        "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false, "temperature": 0.5, "top_p": 0.9,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low"},
        "reasoning": {"effort": "low"}, "max_output_tokens": 9, "max_tool_calls": 2, "truncation": "auto", "store": false,
        "service_tier": "flex", "prompt_cache_key": "p", "safety_identifier": "s", "user": "u", "top_logprobs": 3,
    }));
    about.previous_response_id = Some("resp_0".into());
    insta::assert_snapshot!(object(&about, &ResponseState::Ended(ResponseOutcome::Completed), &[]), @r#"{"id":"resp_1","object":"response","created_at":1772582400,"completed_at":1772582402,"status":"completed","error":null,"incomplete_details":null,"model":"gpt-5","previous_response_id":"resp_0","output":[],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15},"instructions":"Be \"terse\".","metadata":{"k":"v"},"tools":[{"type":"function","name":"f","description":null,"parameters":null,"strict":null}],"tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false,"text":{"format":{"type":"json_schema","name":"n","description":null,"schema":{"type":"object"},"strict":false},"verbosity":"low"},"reasoning":{"effort":"low","summary":null},"temperature":0.5,"top_p":0.9,"presence_penalty":0.0,"frequency_penalty":0.0,"top_logprobs":3,"max_output_tokens":9,"max_tool_calls":2,"truncation":"auto","store":false,"background":false,"service_tier":"flex","prompt_cache_key":"p","safety_identifier":"s","user":"u"}"#);
}

#[test]
fn an_answer_is_reasoning_a_message_and_calls() {
    let mut answer = crate::rich_answer();
    answer.content = Some("Let me see.".into());
    let said = assistant_utterance(&answer, MessageStatus::Complete);
    let items = output_items(MESSAGE, &said, ItemStatus::Completed);
    insta::assert_snapshot!(items.iter().map(Item::to_json).collect::<Vec<_>>().join("\n"), @r#"
    {"type":"reasoning","id":"rs_0000000000000000000000000000000a","status":"completed","summary":[{"type":"summary_text","text":"Hm."}]}
    {"type":"message","id":"msg_0000000000000000000000000000000a","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Let me see.","annotations":[],"logprobs":[]}]}
    {"type":"function_call","id":"fc_0000000000000000000000000000000a_0","status":"completed","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Köln\"}"}
    "#);
}

fn stored(said: Utterance, id: u128) -> Message {
    Message {
        id: herma_model::MessageId::from_uuid(Uuid::from_u128(id)),
        seq: Seq(1),
        session: SessionId::from_name("s"),
        turn: TurnId::from_uuid(Uuid::from_u128(2)),
        attempt: 1,
        created_at: Timestamp(0),
        said,
    }
}

#[test]
fn the_transcript_is_a_list_of_items() {
    let request = parse(include_bytes!("../../fixtures/python_sdk_tool_round.json")).unwrap();
    let images = parse(include_bytes!("../../fixtures/pretty_images_and_unknown_fields.json")).unwrap();
    let partial = Utterance::partial_text("So far");
    assert_eq!(partial.role, Role::Assistant);
    let messages = request.messages.into_iter().chain(images.messages).chain([partial]).zip(20..);
    let mut items: Vec<Item> = messages.flat_map(|(said, id)| items_of(&stored(said, id))).collect();
    items.push(compaction());
    let list = String::from_utf8(item_list(&items, true)).unwrap();
    insta::assert_snapshot!(list.replace("{\"type\":\"", "\n{\"type\":\""), @r#"
    {"object":"list","data":[
    {"type":"message","id":"msg_00000000000000000000000000000014","status":"completed","role":"user","content":[
    {"type":"input_text","text":"Wie ist das Wetter in Köln?"}]},
    {"type":"reasoning","id":"rs_00000000000000000000000000000015","status":"completed","summary":[
    {"type":"summary_text","text":"They want the weather."}]},
    {"type":"function_call","id":"fc_00000000000000000000000000000015_0","status":"completed","call_id":"call_1","name":"weather","arguments":"{\"city\": \"Köln\"}"},
    {"type":"function_call_output","id":"fco_00000000000000000000000000000016","status":"completed","call_id":"call_1","output":"{\"celsius\": 21}"},
    {"type":"message","id":"msg_00000000000000000000000000000017","status":"completed","role":"user","content":[
    {"type":"input_text","text":"What is this? "},
    {"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"low"},
    {"type":"input_audio","input_audio":{"format":"wav","data":"UklG"}},
    {"type":"hologram","hologram":[1.5,2000.0]}]},
    {"type":"message","id":"msg_00000000000000000000000000000018","status":"completed","role":"assistant","content":[
    {"type":"output_text","text":"A cat.","annotations":[],"logprobs":[]}]},
    {"type":"message","id":"msg_00000000000000000000000000000019","status":"incomplete","role":"assistant","content":[
    {"type":"output_text","text":"So far","annotations":[],"logprobs":[]}]},
    {"type":"compaction","id":"cmp_00000000000000000000000000000007","status":"completed","encrypted_content":"opaque"}],"first_id":"msg_00000000000000000000000000000014","last_id":"cmp_00000000000000000000000000000007","has_more":true}
    "#);
}

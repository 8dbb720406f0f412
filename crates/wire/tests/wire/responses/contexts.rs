//! Contexts that no model has to answer: counted, or compacted and given back.

use herma_model::{Timestamp, Usage};
use herma_wire::responses::{
    CompactionObject, Known, compaction_item, input_tokens_json, open_summary, parse, parse_compaction, parse_context,
    seal_summary,
};
use proptest::prelude::any;
use proptest::sample::Index;
use serde_json::json;

use super::compaction;

fn json_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_context_needs_no_input() {
    let none = Known::default();
    for body in [r#"{"previous_response_id":"resp_1","model":"m"}"#, r#"{"input":[]}"#, r#"{"input":null}"#, "{}"] {
        let context = parse_context(body.as_bytes(), &none).unwrap();
        assert!(context.messages.is_empty() && context.system.is_empty());
        assert!(parse(body.as_bytes()).is_err());
    }
    let body = br#"{"input":"hi","instructions":"Be kind.","tools":[]}"#;
    assert_eq!(parse_context(body, &none), parse(body));
    assert_eq!(parse_context(br#"{"input":7}"#, &none).unwrap_err().param.as_deref(), Some("input"));
}

#[test]
fn a_compaction_must_name_its_model() {
    for body in [json!({"input": "hi"}), json!({"input": "hi", "model": null})] {
        let bad = parse_compaction(body.to_string().as_bytes(), &Known::default()).unwrap_err();
        assert_eq!((bad.param.as_deref(), bad.message.as_str()), (Some("model"), "`model` is required"), "{body}");
    }
    let asked = parse_compaction(br#"{"model": "m"}"#, &Known::default()).unwrap();
    assert_eq!(asked.model.as_deref(), Some("m"));
}

#[test]
fn a_count_is_an_object() {
    insta::assert_snapshot!(json_text(input_tokens_json(17)), @r#"{"object":"response.input_tokens","input_tokens":17}"#);
}

#[test]
fn a_compaction_has_the_items_that_replace_the_context() {
    let output = [compaction()];
    let object = CompactionObject {
        id: "resp_1",
        created_at: Timestamp(1_772_582_400_500),
        output: &output,
        usage: Some(Usage { input: 10, output: 5, cached: 4, reasoning: 2, ..Usage::default() }),
    };
    insta::assert_snapshot!(json_text(object.to_json()), @r#"{"id":"resp_1","object":"response.compaction","created_at":1772582400,"output":[{"type":"compaction","id":"cmp_00000000000000000000000000000007","status":"completed","encrypted_content":"opaque"}],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}}"#);
    insta::assert_snapshot!(json_text(CompactionObject { output: &[], usage: None, ..object }.to_json()), @r#"{"id":"resp_1","object":"response.compaction","created_at":1772582400,"output":[],"usage":{"input_tokens":0,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":0}}"#);
}

#[test]
fn a_summary_comes_back_as_a_users_message() {
    let sealed = seal_summary("They spoke of cats.");
    let item = compaction_item("cmp_00000000000000000000000000000007".parse().unwrap(), sealed);
    let body = json!({"input": [
        {"role": "assistant", "content": "Hello"},
        {"type": "reasoning", "summary": [{"text": "lost"}]},
        serde_json::from_str::<serde_json::Value>(&item.to_json()).unwrap(),
        {"type": "compaction", "encrypted_content": "cmp_00000000000000000000000000000007"},
        {"type": "compaction", "encrypted_content": 7},
        {"type": "compaction"},
        {"role": "user", "content": "Go on."},
    ]});
    let request = parse(body.to_string().as_bytes()).unwrap();
    let said: Vec<_> = request.messages.iter().map(|said| said.payload.as_json()).collect();
    assert_eq!(
        said,
        [
            r#"{"role":"assistant","content":"Hello"}"#,
            r#"{"role":"user","content":"They spoke of cats."}"#,
            r#"{"role":"user","content":"Go on."}"#,
        ]
    );
    assert_eq!(request.indices, [0, 2, 6]);
}

#[test]
fn a_sealed_summary_has_a_form_of_its_own() {
    insta::assert_snapshot!(seal_summary("Grüße"), @r#"herma-summary-1.ymORm1AfaaBHcsO8w59l"#);
    for other in ["", "cmp_1", "herma-summary-1.", "herma-summary-1.AAAA", "herma-summary-2.AAAA", "gAAAAABo"] {
        assert_eq!(open_summary(other), None, "{other}");
    }
}

proptest::proptest! {
    #[test]
    fn every_summary_reads_back(text: String) {
        let sealed = seal_summary(&text);
        assert!(sealed.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\'));
        assert_eq!(open_summary(&sealed), Some(text));
    }

    #[test]
    fn a_damaged_summary_is_not_read(text: String, at in any::<Index>(), cut: bool) {
        let sealed = seal_summary(&text);
        let at = at.index(sealed.len() - 1);
        let damaged = if cut {
            sealed[..at].to_owned()
        } else {
            let other = if &sealed[at..=at] == "A" { "B" } else { "A" };
            format!("{}{other}{}", &sealed[..at], &sealed[at + 1..])
        };
        assert_eq!(open_summary(&damaged), None);
    }
}

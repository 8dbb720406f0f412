//! What holds for every input.

use herma_model::generation::{Answer, Finish, FinishReason, ToolCall};
use herma_model::{MessageStatus, Usage};
use herma_wire::chat::{answer_of, assistant_utterance, completion, parse, whole_answer_deltas};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use serde_json::{Map, Value, json};

use crate::HEAD;

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((any::<String>(), inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn fields() -> impl Strategy<Value = Map<String, Value>> {
    vec(("x_[a-z]{0,6}|logprobs|reasoning", json_value()), 0..3).prop_map(|fields| fields.into_iter().collect())
}

fn part() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<String>().prop_map(|text| json!({"type": "text", "text": text})),
        "https://[a-z]{1,8}".prop_map(|url| json!({"type": "image_url", "image_url": {"url": url}})),
        json_value().prop_map(|value| json!({"type": "x", "x": value})),
    ]
}

fn content() -> impl Strategy<Value = Value> {
    prop_oneof![any::<String>().prop_map(Value::from), vec(part(), 0..4).prop_map(Value::from)]
}

/// A valid message, in any of its spellings.
fn message() -> impl Strategy<Value = Value> {
    let call = ("[a-z]{1,4}", any::<String>(), fields()).prop_map(|(name, arguments, extra)| {
        let mut call = extra;
        call.insert("function".into(), json!({"arguments": arguments, "name": name}));
        call
    });
    let assistant = (option::of(content()), vec(call, 0..3)).prop_map(|(content, mut calls)| {
        for (index, call) in calls.iter_mut().enumerate() {
            call.insert("id".into(), json!(format!("call_{index}")));
        }
        json!({"tool_calls": calls, "content": content, "role": "assistant", "refusal": null})
    });
    let spoken = prop_oneof![
        content().prop_map(|content| json!({"content": content, "role": "user"})),
        content().prop_map(|content| json!({"content": content, "tool_call_id": "c", "role": "tool"})),
        assistant,
    ];
    (fields(), spoken).prop_map(|(mut extra, spoken)| {
        extra.extend(crate::map(spoken));
        Value::Object(extra)
    })
}

/// A message in which one field has an arbitrary value.
fn message_with_arbitrary_field() -> impl Strategy<Value = Value> {
    (message(), any::<proptest::sample::Index>(), prop_oneof![json_value(), message(), part()]).prop_map(
        |(mut message, at, value)| {
            if let Some(fields) = message.as_object_mut() {
                let at = at.index(fields.len());
                fields.values_mut().skip(at).take(1).for_each(|field| *field = value.clone());
            }
            message
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let call = (any::<String>(), any::<String>(), any::<String>(), any::<bool>(), fields())
        .prop_map(|(id, name, arguments, custom, extra)| ToolCall { id, name, arguments, custom, extra });
    let usage = option::of(any::<(u32, u32)>().prop_map(|(input, output)| Usage {
        input: input.into(),
        output: output.into(),
        ..Usage::default()
    }));
    let finish = (proptest::sample::select(FinishReason::ALL), usage, option::of(any::<String>()), fields())
        .prop_map(|(reason, usage, model, extra)| Finish { reason, usage, model, extra });
    let said = (option::of(any::<String>()), option::of(any::<String>()), vec(call, 0..3));
    (said, fields(), fields(), finish).prop_map(|((content, refusal, tool_calls), extra, choice_extra, finish)| {
        Answer { content, refusal, tool_calls, extra, choice_extra, finish }
    })
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(body in vec(any::<u8>(), 0..256)) {
        let _ = parse(&body);
    }

    #[test]
    fn no_json_makes_the_parser_panic(body in json_value()) {
        let _ = parse(body.to_string().as_bytes());
    }

    #[test]
    fn no_message_makes_the_parser_panic(message in message_with_arbitrary_field()) {
        let _ = parse(json!({"messages": [message]}).to_string().as_bytes());
    }

    #[test]
    fn a_canonical_message_is_one_line_and_parses_to_itself(message in message()) {
        let said = parse(serde_json::to_string_pretty(&json!({"messages": [message]})).unwrap().as_bytes()).unwrap();
        let said = &said.messages[0];
        let payload = said.payload.as_json();
        assert!(!payload.contains('\n'));
        let again = parse(format!("{{\"messages\":[{payload}]}}").as_bytes()).unwrap();
        assert_eq!((&again.messages[0].payload, again.messages[0].digest), (&said.payload, said.digest));
        assert_eq!(again.messages[0].calls, said.calls);
    }

    #[test]
    fn every_answer_reads_back_from_the_transcript(answer in answer()) {
        let said = assistant_utterance(&answer, MessageStatus::Complete);
        assert_eq!(answer_of(&said, answer.finish.clone()), answer);
    }

    #[test]
    fn every_answer_that_a_client_sends_back_is_the_same_message(mut answer in answer()) {
        for (index, call) in answer.tool_calls.iter_mut().enumerate() {
            call.id = format!("call_{index}");
            call.name.push('f');
        }
        let body: Value = serde_json::from_slice(&completion(&HEAD, &answer, None)).unwrap();
        let resent = json!({"messages": [body["choices"][0]["message"]]});
        let request = parse(resent.to_string().as_bytes()).unwrap();
        assert_eq!(request.messages[0].digest, assistant_utterance(&answer, MessageStatus::Complete).digest);
    }

    #[test]
    fn every_answer_streams_its_whole_text(answer in answer()) {
        let deltas = whole_answer_deltas(&answer);
        let text: String = deltas.iter().filter_map(|delta| delta.content.as_deref()).collect();
        assert_eq!(text, answer.content.unwrap_or_default());
        assert_eq!(deltas.iter().map(|delta| delta.tool_calls.len()).sum::<usize>(), answer.tool_calls.len());
    }

    #[test]
    fn a_text_is_the_same_as_a_string_and_as_parts(text: String, split: proptest::sample::Index) {
        let middle = text.char_indices().map(|(at, _)| at).nth(split.index(text.chars().count().max(1))).unwrap_or(0);
        let (front, back) = text.split_at(middle);
        let digests = [
            json!(text),
            json!([{"type": "text", "text": text}]),
            json!([{"type": "text", "text": front}, {"type": "text", "text": back}]),
        ]
        .map(|content| {
            let body = json!({"messages": [{"role": "user", "content": content}]}).to_string();
            parse(body.as_bytes()).unwrap().messages[0].digest
        });
        assert_eq!(digests[0], digests[1]);
        assert_eq!(digests[0], digests[2]);
    }
}

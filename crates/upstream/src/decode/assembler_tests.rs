//! Streamed answers of different servers, cut into pieces at any byte.

use herma_model::generation::ToolCallDelta;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::decode::sse::Decoder;

/// The deltas of a stream and how it ended.
fn read(pieces: &[&[u8]]) -> (Vec<Delta>, Result<Finish, DecodeError>) {
    let mut decoder = Decoder::new(1 << 20);
    let mut assembler = Assembler::default();
    let mut deltas = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        while let Some(frame) = decoder.next_frame().unwrap() {
            match assembler.take(frame) {
                Ok(Progress::Nothing) => {}
                Ok(Progress::Text(said)) => deltas.push(text(&said)),
                Ok(Progress::Piece(delta)) => deltas.push(delta),
                Ok(Progress::Done(finish)) => return (deltas, Ok(finish)),
                Err(error) => return (deltas, Err(error)),
            }
        }
    }
    let end = assembler.end_of_body();
    (deltas, end)
}

fn read_chunks(chunks: &[Value]) -> (Vec<Delta>, Result<Finish, DecodeError>) {
    let text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    read(&[text.as_bytes()])
}

fn chunk(delta: &Value, reason: Option<&str>) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": "fp",
           "service_tier": null, "obfuscation": "xyz", "usage": null,
           "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]})
}

fn text(content: &str) -> Delta {
    Delta { content: Some(content.to_owned()), ..Delta::default() }
}

fn complete_stream() -> String {
    let chunks = [
        chunk(&json!({"role": "assistant", "content": "", "refusal": null}), None),
        chunk(&json!({"content": "Grüße \"dir\"\n"}), None),
        chunk(&json!({"content": "😀", "reasoning_content": null}), None),
        chunk(&json!({}), Some("stop")),
        json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}, "timings": {"ms": 1}}),
    ];
    let mut stream = String::from(": hello\n\n");
    stream.extend(chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")));
    stream + "data: [DONE]\n\n"
}

#[test]
fn a_stream_yields_its_texts_and_then_one_end_with_usage() {
    let (deltas, end) = read(&[complete_stream().as_bytes()]);
    assert_eq!(deltas, [text("Grüße \"dir\"\n"), text("😀")]);
    let end = end.unwrap();
    assert_eq!(end.reason, FinishReason::Stop);
    assert_eq!(end.usage, Some(Usage { input: 5, output: 2, ..Usage::default() }));
    assert_eq!(end.model.as_deref(), Some("m"));
    assert_eq!(Value::Object(end.extra), json!({"system_fingerprint": "fp", "timings": {"ms": 1}}));
}

#[test]
fn reasoning_tool_calls_and_choice_fields_are_kept() {
    let (deltas, end) = read_chunks(&[
        chunk(&json!({"reasoning_content": "hm", "content": null}), None),
        chunk(&json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}), None),
        json!({"choices": [{"delta": {"content": "x"}, "logprobs": {"content": [1]}}]}),
        json!({"choices": [{"index": 1, "delta": {"content": "another choice"}}]}),
        json!({"choices": [{"delta": null, "finish_reason": "tool_calls"}]}),
    ]);
    assert_eq!(Value::Object(deltas[0].extra.clone()), json!({"reasoning_content": "hm"}));
    let call = ToolCallDelta {
        index: 0,
        id: Some("a".to_owned()),
        name: Some("f".to_owned()),
        arguments: Some("{}".to_owned()),
        ..ToolCallDelta::default()
    };
    assert_eq!(deltas[1].tool_calls, [call]);
    assert_eq!(Value::Object(deltas[2].choice_extra.clone()), json!({"logprobs": {"content": [1]}}));
    assert_eq!((deltas.len(), end.unwrap().reason), (3, FinishReason::ToolCalls));
}

#[test]
fn an_end_without_a_reason_is_a_cut_unless_the_server_says_done() {
    let said = chunk(&json!({"content": "a"}), None);
    assert_eq!(read_chunks(std::slice::from_ref(&said)).1, Err(DecodeError::CutOff));
    assert_eq!(read(&[]).1, Err(DecodeError::CutOff));
    let done = format!("data: {said}\n\ndata: [DONE]\n\n");
    assert_eq!(read(&[done.as_bytes()]).1.unwrap().reason, FinishReason::Stop);
    let reason = read_chunks(&[chunk(&json!({"content": "a"}), Some("length"))]).1.unwrap().reason;
    assert_eq!(reason, FinishReason::Length);
    let broken = read_chunks(&[said, chunk(&json!({}), Some("error"))]);
    assert_eq!((broken.0.len(), broken.1), (1, Err(DecodeError::CutOff)));
}

#[test]
fn a_stream_that_says_nothing_is_no_answer() {
    let empty = |reason| read_chunks(&[chunk(&json!({"role": "assistant", "content": ""}), Some(reason))]).1;
    assert_eq!(empty("stop"), Err(DecodeError::EmptyAnswer));
    assert_eq!(read(&[b"data: [DONE]\n\n"]).1, Err(DecodeError::EmptyAnswer));
    assert!(empty("length").is_ok() && empty("content_filter").is_ok());
}

#[test]
fn errors_and_nonsense_in_the_stream_end_it() {
    for (stream, message) in [
        ("data: {\"error\":{\"message\":\"busy\",\"code\":503}}\n\n", "busy"),
        ("data: {\"choices\":[{\"error\":{\"message\":\"busy\"},\"finish_reason\":\"error\"}]}\n\n", "busy"),
        ("event: error\ndata: {\"message\":\"busy\"}\n\n", "busy"),
        ("event: error\ndata: busy\n\n", "busy"),
    ] {
        match read(&[stream.as_bytes()]).1 {
            Err(DecodeError::Reported(error)) => assert_eq!(error.message, message),
            other => panic!("{stream}: {other:?}"),
        }
    }
    for stream in ["data: <html>\n\n", "data: {\"choices\":[{\"delta\":7}]}\n\n", "data: {\"choices\":[\n\n"] {
        assert!(matches!(read(&[stream.as_bytes()]).1, Err(DecodeError::Nonsense(_))), "{stream}");
    }
    let named = "event: ping\ndata: now\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n".to_owned() + &complete_stream();
    let (deltas, end) = read(&[named.as_bytes()]);
    assert_eq!((deltas.len(), end.unwrap().extra.contains_key("type")), (2, false));
}

#[test]
fn chunks_that_repeat_the_one_before_are_read_like_any_other() {
    let odd = [
        chunk(&json!({"content": "a"}), None),
        chunk(&json!({"content": "b \"c\" \u{e9}\n\\"}), None),
        chunk(&json!({"content": ""}), None),
        chunk(&json!({"content": "\",\"refusal\":\"x"}), None),
        chunk(&json!({"content": "d", "refusal": "no"}), None),
        chunk(&json!({"content": "e"}), None),
        json!({"choices": [{"index": 0, "delta": {"content": "f"}}], "x": 1}),
        json!({"choices": [{"index": 0, "delta": {"content": "g"}}], "x": 2}),
        json!({"choices": [{"index": 0, "delta": {"content": "h"}}], "x": 2, "usage": {"prompt_tokens": 7}}),
        chunk(&json!({"content": "i"}), Some("length")),
    ];
    // The same chunks, with spaces that keep any two neighbours from being alike.
    let spaced = odd.iter().enumerate().map(|(nth, chunk)| {
        let indented = chunk.to_string().replacen('{', &format!("{{{}", " ".repeat(nth)), 1);
        format!("data: {indented}\n\n")
    });
    let spaced: String = spaced.collect();
    assert_eq!(read_chunks(&odd), read(&[spaced.as_bytes()]));
    let (deltas, end) = read_chunks(&odd);
    let said: String = deltas.iter().filter_map(|delta| delta.content.as_deref()).collect();
    assert_eq!(said, "ab \"c\" \u{e9}\n\\\",\"refusal\":\"xdefghi");
    assert_eq!(deltas.iter().filter(|delta| delta.refusal.is_some()).count(), 1);
    let end = end.unwrap();
    assert_eq!((end.reason, end.usage.map(|usage| usage.input)), (FinishReason::Length, Some(7)));
    assert_eq!(end.extra["x"], 2);
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_answer(cuts in prop::collection::vec(0usize..2000, 0..30)) {
        let stream = complete_stream().into_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read(&pieces), read(&[&stream]));
    }
}

//! What we emit, read by the types of an independent client.

use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, CreateChatCompletionResponse, CreateChatCompletionStreamResponse, FinishReason,
};
use bytes::Bytes;
use herma_model::Usage;
use herma_wire::chat::{completion, delta_chunk, finish_chunk, role_chunk, usage_chunk, whole_answer_deltas};

use crate::{HEAD, rich_answer, session};

fn chunk(frame: &Bytes) -> CreateChatCompletionStreamResponse {
    let json = frame.strip_prefix(b"data: ").and_then(|rest| rest.strip_suffix(b"\n\n")).unwrap();
    serde_json::from_slice(json).unwrap()
}

#[test]
fn a_client_reads_an_answer() {
    let read: CreateChatCompletionResponse =
        serde_json::from_slice(&completion(&HEAD, &rich_answer(), Some(&session()))).unwrap();
    let choice = &read.choices[0];
    assert_eq!(choice.finish_reason, Some(FinishReason::ToolCalls));
    let Some([ChatCompletionMessageToolCalls::Function(call)]) = choice.message.tool_calls.as_deref() else {
        panic!("one call of a function is expected: {choice:?}");
    };
    assert_eq!((call.id.as_str(), call.function.name.as_str()), ("call_1", "weather"));
    let usage = read.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (10, 5, 15));
    assert_eq!(usage.prompt_tokens_details.unwrap().cached_tokens, Some(4));
    assert_eq!(usage.completion_tokens_details.unwrap().reasoning_tokens, Some(2));
}

#[test]
fn a_client_reads_every_chunk_of_a_stream() {
    let answer = rich_answer();
    assert_eq!(chunk(&role_chunk(&HEAD)).choices[0].delta.content.as_deref(), Some(""));
    let deltas: Vec<_> = whole_answer_deltas(&answer).iter().map(|delta| chunk(&delta_chunk(&HEAD, delta))).collect();
    let calls: Vec<_> = deltas.iter().filter_map(|chunk| chunk.choices[0].delta.tool_calls.as_ref()).collect();
    assert_eq!(calls[0][0].id.as_deref(), Some("call_1"));
    let last = chunk(&finish_chunk(&HEAD, &answer.finish, Some(&session())));
    assert_eq!(last.choices[0].finish_reason, Some(FinishReason::ToolCalls));
    let usage = chunk(&usage_chunk(&HEAD, Some(&Usage { input: 3, output: 2, ..Usage::default() })));
    assert!(usage.choices.is_empty());
    assert_eq!(usage.usage.unwrap().total_tokens, 5);
}

//! Writes completions and chunks as bytes.

use bytes::Bytes;
use serde_json::{Value, json};

use super::recorded::Recorded;
use super::reply::{Completion, ToolCall, usage};

const CREATED: u64 = 1_767_225_600;

/// The ids and the model that all parts of one answer share.
pub(super) struct Wire<'a> {
    pub(super) model: &'a str,
    pub(super) number: usize,
}

impl Wire<'_> {
    fn id(&self) -> String {
        format!("chatcmpl-{}", self.number)
    }

    /// The whole completion.
    pub(super) fn completion(&self, completion: &Completion, request: &Recorded) -> Bytes {
        let text = completion.texts.concat();
        let content = if text.is_empty() { Value::Null } else { Value::String(text) };
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if !completion.calls.is_empty() {
            message["tool_calls"] = completion.calls.iter().map(whole_call).collect();
        }
        Bytes::from(
            json!({
                "id": self.id(),
                "object": "chat.completion",
                "created": CREATED,
                "model": self.model,
                "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(completion)}],
                "usage": usage_of(completion, request),
            })
            .to_string(),
        )
    }

    /// One SSE frame with a delta.
    pub(super) fn delta(&self, delta: &Value) -> Bytes {
        self.chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}]), None)
    }

    /// The frames of one tool call: its head, then its arguments in two pieces.
    pub(super) fn call(&self, index: usize, call: &ToolCall) -> Vec<Bytes> {
        let head = json!({"index": index, "id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": ""}});
        let middle = (0..=call.arguments.len() / 2).rev().find(|at| call.arguments.is_char_boundary(*at));
        let (front, back) = call.arguments.split_at(middle.unwrap_or(0));
        let mut frames = vec![self.delta(&json!({"tool_calls": [head]}))];
        for piece in [front, back].into_iter().filter(|piece| !piece.is_empty()) {
            frames.push(self.delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})));
        }
        frames
    }

    /// The frame with the finish reason.
    pub(super) fn finish(&self, completion: &Completion) -> Bytes {
        let choice = json!({"index": 0, "delta": {}, "finish_reason": finish_reason(completion)});
        self.chunk(&json!([choice]), None)
    }

    /// The frame with the usage and no choice.
    pub(super) fn usage(&self, completion: &Completion, request: &Recorded) -> Bytes {
        self.chunk(&json!([]), Some(&usage_of(completion, request)))
    }

    fn chunk(&self, choices: &Value, usage: Option<&Value>) -> Bytes {
        let mut chunk = json!({
            "id": self.id(),
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage.clone();
        }
        frame(&chunk.to_string())
    }
}

/// One SSE frame.
pub(super) fn frame(data: &str) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

fn whole_call(call: &ToolCall) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn finish_reason(completion: &Completion) -> &str {
    match &completion.finish_reason {
        Some(reason) => reason,
        None if completion.calls.is_empty() => "stop",
        None => "tool_calls",
    }
}

fn usage_of(completion: &Completion, request: &Recorded) -> Value {
    completion.usage.clone().unwrap_or_else(|| {
        let prompt = request.transcript().iter().map(|line| words(line)).sum();
        let called: u64 = completion.calls.iter().map(|call| words(&call.arguments)).sum();
        usage(prompt, words(&completion.texts.concat()) + called)
    })
}

fn words(text: &str) -> u64 {
    text.split_whitespace().map(|_| 1).sum()
}

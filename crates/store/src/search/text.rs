//! The searchable text of a message: text, refusals, and tool calls with their arguments.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// A message whose content is one text. Most are.
#[derive(Deserialize)]
struct PlainMessage<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    refusal: Option<IgnoredAny>,
    tool_calls: Option<IgnoredAny>,
}

/// The text of a message, each part on its own line. Images, audio and files have none.
pub fn text_of(payload: &str) -> String {
    if let Ok(PlainMessage { content: Some(content), refusal: None, tool_calls: None }) = serde_json::from_str(payload)
    {
        return content.into_owned();
    }
    let Ok(message) = serde_json::from_str::<Value>(payload) else { return String::new() };
    let mut text = String::new();
    let mut add = |part: &Value| {
        if let Some(part) = part.as_str().filter(|part| !part.is_empty()) {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(part);
        }
    };
    match &message["content"] {
        Value::Array(parts) => parts.iter().for_each(|part| {
            add(&part["text"]);
            add(&part["refusal"]);
        }),
        content => add(content),
    }
    add(&message["refusal"]);
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        for (kind, said) in [("function", "arguments"), ("custom", "input")] {
            add(&call[kind]["name"]);
            add(&call[kind][said]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_said_is_text_and_nothing_else_is() {
        for (payload, text) in [
            (r#"{"role":"user","content":"hello"}"#, "hello"),
            (
                r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"here"}]}"#,
                "look\nhere",
            ),
            (
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}}]}"#,
                "weather\n{\"city\":\"Oslo\"}",
            ),
            (r#"{"role":"assistant","content":null,"refusal":"no"}"#, "no"),
            (r#"{"role":"assistant","content":"but","refusal":"no"}"#, "but\nno"),
            (r#"{"role":"assistant","content":"a\n\"b\"","refusal":null,"tool_calls":null}"#, "a\n\"b\""),
            (r#"{"role":"user","content":"one","content":"two"}"#, "two"),
            (r#"{"role":"user","content":"","extra":{"content":"x"}}"#, ""),
            (r#"{"role":"user","content":7}"#, ""),
            ("not json", ""),
        ] {
            assert_eq!(text_of(payload), text, "{payload}");
        }
    }
}

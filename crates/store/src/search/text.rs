//! The searchable text of a message: text, refusals, and tool calls with their arguments.

use serde_json::Value;

/// The text of a message, each part on its own line. Images, audio and files have none.
pub fn text_of(payload: &str) -> String {
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
            ("not json", ""),
        ] {
            assert_eq!(text_of(payload), text, "{payload}");
        }
    }
}

//! One row of Hermes' messages as a message of ours, read by the same reader as a client's: what clients send later aligns with it.

use herma_model::Utterance;
use herma_store_sqlite::hermes::HermesMessage;
use herma_wire::chat;
use serde_json::{Map, Value, json};

/// What content begins with that is JSON.
const JSON_MARK: &str = "\u{0}json:";
/// Fields of a call that mean something to Hermes alone.
const OWN_CALL_FIELDS: [&str; 2] = ["call_id", "response_item_id"];
/// What Hermes' summaries begin with.
pub(super) const SUMMARY_BEGINNINGS: [&str; 3] = ["[CONTEXT COMPACTION", "[CONTEXT SUMMARY]:", "[PRIOR CONTEXT"];
/// What ends a summary to which a message was joined.
const SUMMARY_END: &str = "--- END OF CONTEXT SUMMARY";

/// What a row is.
#[derive(Debug, PartialEq)]
pub(super) enum Reading {
    /// A message.
    Said(Utterance),
    /// A summary that stands for messages before it.
    Summary(String),
    /// Nothing that can be read, and why.
    Unreadable(String),
}

/// Reads a row.
pub(super) fn read(row: &HermesMessage) -> Reading {
    if let Some(column) = row.damaged {
        return Reading::Unreadable(format!("{column} is not text"));
    }
    if let Some(summary) = summary(row) {
        return Reading::Summary(summary);
    }
    let said = object(row).and_then(|message| chat::single(&message.to_string()).map_err(|error| error.message));
    said.map_or_else(Reading::Unreadable, Reading::Said)
}

/// The text of a summary, without the instructions that Hermes begins and ends it with.
fn summary(row: &HermesMessage) -> Option<String> {
    let text = row.content.as_deref().filter(|_| matches!(&*row.role, "user" | "assistant"))?.trim_start();
    let beginning = SUMMARY_BEGINNINGS.iter().find(|beginning| text.starts_with(**beginning))?;
    if *beginning == "[PRIOR CONTEXT" {
        return text.contains("[CONTEXT COMPACTION").then(|| text.to_owned());
    }
    let body = match *beginning {
        "[CONTEXT COMPACTION" => text.split_once('\n').map_or(text, |(_, body)| body),
        legacy => &text[legacy.len()..],
    };
    let lines = body.lines().filter(|line| !line.trim_start().starts_with(SUMMARY_END));
    let body = lines.collect::<Vec<_>>().join("\n");
    let body = body.trim();
    Some(if body.is_empty() { text } else { body }.to_owned())
}

fn object(row: &HermesMessage) -> Result<Value, String> {
    let mut message = Map::new();
    message.insert("role".to_owned(), row.role.clone().into());
    if let Some(content) = &row.content {
        message.insert("content".to_owned(), decoded(content)?);
    }
    match &*row.role {
        "assistant" => {
            if let Some(calls) = row.tool_calls.as_deref().filter(|calls| !calls.is_empty()) {
                message.insert("tool_calls".to_owned(), calls_of(calls)?);
            }
            let thoughts = [&row.reasoning_content, &row.reasoning].into_iter().flatten().find(|text| !text.is_empty());
            message.extend(thoughts.map(|text| ("reasoning_content".to_owned(), text.clone().into())));
        }
        "tool" => {
            let call = row.tool_call_id.as_ref().map(|call| ("tool_call_id".to_owned(), call.clone().into()));
            message.extend(call);
        }
        _ => {}
    }
    Ok(Value::Object(message))
}

/// Text as it is, parts in the form that chat requests have them.
fn decoded(content: &str) -> Result<Value, String> {
    let Some(json) = content.strip_prefix(JSON_MARK) else { return Ok(content.into()) };
    let decoded: Value = serde_json::from_str(json).map_err(|error| format!("content is not valid JSON: {error}"))?;
    Ok(match decoded {
        Value::Array(parts) => parts.into_iter().map(part).collect(),
        text @ Value::String(_) => text,
        other => other.to_string().into(),
    })
}

fn part(part: Value) -> Value {
    match (part["type"].as_str(), &part) {
        (Some("input_text" | "output_text"), _) => json!({ "type": "text", "text": part["text"] }),
        (Some("input_image"), _) if part["image_url"].is_string() => {
            json!({ "type": "image_url", "image_url": { "url": part["image_url"] } })
        }
        (None, Value::String(text)) => json!({ "type": "text", "text": text }),
        _ => part,
    }
}

fn calls_of(json: &str) -> Result<Value, String> {
    let mut calls: Value =
        serde_json::from_str(json).map_err(|error| format!("tool_calls is not valid JSON: {error}"))?;
    for call in calls.as_array_mut().into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.retain(|name, _| !OWN_CALL_FIELDS.contains(&&**name));
        }
        if let Some(arguments) = call.pointer_mut("/function/arguments").filter(|it| it.is_object()) {
            *arguments = arguments.to_string().into();
        }
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use herma_model::Role;

    use super::*;

    fn row(role: &str, content: &str) -> HermesMessage {
        HermesMessage { role: role.to_owned(), content: Some(content.to_owned()), ..HermesMessage::default() }
    }

    fn said(row: &HermesMessage) -> Utterance {
        match read(row) {
            Reading::Said(said) => said,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_is_what_a_client_would_send() {
        assert_eq!(said(&row("user", "hello")), chat::simple_user("hello"));
    }

    #[test]
    fn parts_are_what_a_client_would_send() {
        let parts = r#"[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"http://x/y.png"}]"#;
        let client = r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"http://x/y.png"}}]}"#;
        assert_eq!(said(&row("user", &format!("{JSON_MARK}{parts}"))), chat::single(client).unwrap());
        assert!(matches!(read(&row("user", "\u{0}json:{")), Reading::Unreadable(_)));
        assert!(
            said(&row("user", "[1, 2]")).payload.as_json().contains("\"[1, 2]\""),
            "text that looks like JSON is text"
        );
    }

    #[test]
    fn calls_and_results_keep_their_ids_and_thoughts_are_not_sent_back() {
        let calls = r#"[{"id":"c1","call_id":"c1","response_item_id":"fc_1","type":"function","function":{"name":"find","arguments":{"a":1}}}]"#;
        let asking = HermesMessage {
            role: "assistant".to_owned(),
            tool_calls: Some(calls.to_owned()),
            reasoning: Some("hm".to_owned()),
            ..HermesMessage::default()
        };
        let asking = said(&asking);
        assert_eq!(&*asking.calls, [std::sync::Arc::from("c1")]);
        assert_eq!(
            asking.payload.as_json(),
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"a\":1}"}}]}"#
        );
        assert!(asking.extra.unwrap().contains("hm"));
        let result = HermesMessage { tool_call_id: Some("c1".to_owned()), ..row("tool", "found") };
        assert_eq!((said(&result).role, said(&result).calls.len()), (Role::Tool, 1));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let bytes = HermesMessage { damaged: Some("content"), ..row("user", "") };
        for (row, part) in [
            (row("system", "be kind"), "role"),
            (row("session_meta", "{}"), "role"),
            (row("tool", "found"), "tool_call_id"),
            (HermesMessage { role: "user".to_owned(), ..HermesMessage::default() }, "content"),
            (HermesMessage { tool_calls: Some("[{".to_owned()), ..row("assistant", "") }, "tool_calls"),
            (bytes, "content is not text"),
        ] {
            match read(&row) {
                Reading::Unreadable(why) => assert!(why.contains(part), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn summaries_are_known_by_how_they_begin() {
        let new = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted.\nThey met.\n\n--- END OF CONTEXT SUMMARY — respond below ---\n\nAnd now?";
        for (row, text) in [
            (row("user", new), "They met.\n\n\nAnd now?"),
            (row("assistant", "[CONTEXT SUMMARY]: They met."), "They met."),
            (row("user", "[CONTEXT COMPACTION] alone"), "[CONTEXT COMPACTION] alone"),
        ] {
            assert_eq!(read(&row), Reading::Summary(text.to_owned()));
        }
        assert!(matches!(read(&row("user", "[PRIOR CONTEXT is a good band")), Reading::Said(_)));
    }
}

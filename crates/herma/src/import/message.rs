//! Reads a row of Hermes' messages as a message. It uses the parser of client messages, so that messages which clients
//! send later align with it.

use herma_model::Utterance;
use herma_store_sqlite::hermes::HermesMessage;
use herma_wire::chat;
use serde_json::{Map, Value, json};

/// Content that begins with this is JSON.
const JSON_MARK: &str = "\u{0}json:";
/// Fields of a tool call that only Hermes uses.
const OWN_CALL_FIELDS: [&str; 2] = ["call_id", "response_item_id"];
/// How Hermes' summaries begin.
pub(super) const SUMMARY_BEGINNINGS: [&str; 3] = ["[CONTEXT COMPACTION", "[CONTEXT SUMMARY]:", JOINED_BEGINNING];
/// Ends a summary. A message may follow.
const SUMMARY_END: &str = "--- END OF CONTEXT SUMMARY";
/// Begins and ends a message to which a summary was joined.
const JOINED_BEGINNING: &str = "[PRIOR CONTEXT";
const JOINED_END: &str = "[END OF PRIOR CONTEXT";

/// What a row contains.
#[derive(Debug, PartialEq)]
pub(super) enum Reading {
    /// A message.
    Said(Utterance),
    /// A summary that replaces messages before it.
    Summary(String),
    /// A summary and the first message after it, in one row.
    Joined { summary: String, said: Utterance },
    /// The row is unreadable, for this reason.
    Unreadable(String),
}

/// Reads a row.
pub(super) fn read(row: &HermesMessage) -> Reading {
    if let Some(column) = row.damaged {
        return Reading::Unreadable(format!("{column} is not text"));
    }
    if !matches!(&*row.role, "user" | "assistant" | "tool") {
        return Reading::Unreadable(format!("its role {} is none of user, assistant and tool", row.role));
    }
    let Some((summary, rest)) = summary(row) else { return said(row).map_or_else(Reading::Unreadable, Reading::Said) };
    let has_calls = row.tool_calls.as_deref().is_some_and(|calls| !calls.is_empty());
    let rest = (rest.is_some() || has_calls).then(|| said(&HermesMessage { content: rest, ..row.clone() }));
    match rest {
        Some(Ok(said)) => Reading::Joined { summary, said },
        _ => Reading::Summary(summary),
    }
}

fn said(row: &HermesMessage) -> Result<Utterance, String> {
    object(row).and_then(|message| chat::single(&message.to_string()).map_err(|error| error.message))
}

/// The summary in a row, and the content of the message that it was joined to. The summary is without the instructions
/// that Hermes puts around it.
fn summary(row: &HermesMessage) -> Option<(String, Option<String>)> {
    let content = row.content.as_deref().filter(|_| row.role != "tool")?;
    match content.strip_prefix(JSON_MARK) {
        Some(json) => summary_of_parts(serde_json::from_str(json).ok()?),
        None => summary_of_text(content.trim_start()),
    }
}

fn summary_of_text(text: &str) -> Option<(String, Option<String>)> {
    if text.starts_with(JOINED_BEGINNING) {
        let (before, summary) = text.split_once(JOINED_END)?;
        let before = before.split_once('\n').map_or("", |(_, before)| before).trim();
        let (_, summary) = summary.split_once('\n')?;
        let (summary, _) = summary_of_text(summary.trim_start())?;
        return Some((summary, Some(before.to_owned()).filter(|before| !before.is_empty())));
    }
    let beginning = SUMMARY_BEGINNINGS.iter().find(|beginning| text.starts_with(**beginning))?;
    let body = match *beginning {
        "[CONTEXT COMPACTION" => text.split_once('\n').map_or(text, |(_, body)| body),
        legacy => &text[legacy.len()..],
    };
    let (body, rest) = match body.find(SUMMARY_END) {
        Some(end) => (&body[..end], body[end..].split_once('\n').map_or("", |(_, rest)| rest).trim()),
        None => (body, ""),
    };
    let body = if body.trim().is_empty() { text } else { body.trim() };
    Some((body.to_owned(), Some(rest.to_owned()).filter(|rest| !rest.is_empty())))
}

/// The summary is the first part, or it is in the last part. In the second case the first part only marks the
/// beginning.
fn summary_of_parts(mut parts: Vec<Value>) -> Option<(String, Option<String>)> {
    let begins = |part: Option<&Value>, with: &str| {
        part.and_then(|part| part["text"].as_str()).is_some_and(|text| text.trim_start().starts_with(with))
    };
    let summary = if begins(parts.first(), JOINED_BEGINNING) && begins(parts.last(), JOINED_END) {
        parts.remove(0);
        let last = parts.pop()?;
        last["text"]
            .as_str()
            .and_then(|text| text.split_once(JOINED_END)?.1.split_once('\n'))
            .map(|(_, summary)| summary.to_owned())?
    } else if begins(parts.first(), SUMMARY_BEGINNINGS[0]) {
        parts.remove(0)["text"].as_str()?.to_owned()
    } else {
        return None;
    };
    let (summary, _) = summary_of_text(summary.trim_start())?;
    let rest = (!parts.is_empty()).then(|| format!("{JSON_MARK}{}", Value::Array(parts)));
    Some((summary, rest))
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

/// Text as it is; parts in the form of chat requests.
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
        for (row, text) in [
            (
                row(
                    "user",
                    "[CONTEXT COMPACTION — REFERENCE ONLY] Not now.\nThey met.\n\n--- END OF CONTEXT SUMMARY — below ---",
                ),
                "They met.",
            ),
            (row("assistant", "[CONTEXT SUMMARY]: They met."), "They met."),
            (row("user", "[CONTEXT COMPACTION] alone"), "[CONTEXT COMPACTION] alone"),
        ] {
            assert_eq!(read(&row), Reading::Summary(text.to_owned()));
        }
        assert!(matches!(read(&row("user", "[PRIOR CONTEXT is a good band")), Reading::Said(_)));
    }

    #[test]
    fn a_message_that_was_joined_to_a_summary_is_a_message() {
        let summary =
            "[CONTEXT COMPACTION — REFERENCE ONLY] Not now.\nThey met.\n\n--- END OF CONTEXT SUMMARY — below ---";
        let after = format!("{summary}\n\nAnd now?");
        let end = format!("\n\n[END OF PRIOR CONTEXT — BELOW]\n\n{summary}");
        let before = format!("[PRIOR CONTEXT — not new]\nAnd now?{end}");
        let part = |text: &str| json!({ "type": "text", "text": text });
        let image = json!({ "type": "image_url", "image_url": { "url": "http://x/y.png" } });
        let around = json!([part("[PRIOR CONTEXT — not new]\n"), part("And now?"), image, part(&end)]);
        let first = json!([part(summary), part("And now?"), image]);
        let client = json!({ "role": "user", "content": [part("And now?"), image] }).to_string();
        for (content, said) in [
            (after, chat::simple_user("And now?")),
            (before, chat::simple_user("And now?")),
            (format!("{JSON_MARK}{around}"), chat::single(&client).unwrap()),
            (format!("{JSON_MARK}{first}"), chat::single(&client).unwrap()),
        ] {
            assert_eq!(read(&row("user", &content)), Reading::Joined { summary: "They met.".to_owned(), said });
        }
        let calls = r#"[{"id":"c1","type":"function","function":{"name":"find","arguments":"{}"}}]"#;
        let asking = HermesMessage { tool_calls: Some(calls.to_owned()), ..row("assistant", summary) };
        assert!(matches!(read(&asking), Reading::Joined { said, .. } if said.calls.len() == 1));
    }
}

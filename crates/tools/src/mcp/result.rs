//! A tool's answer as text.

use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ResourceContents};

use crate::tool::CallEnd;

/// What the server answered to a call.
pub(super) fn of_call(response: CallToolResponse) -> CallEnd {
    match response {
        CallToolResponse::Complete(result) => {
            let is_error = result.is_error.unwrap_or(false);
            CallEnd::Result { text: text(result), is_error }
        }
        CallToolResponse::InputRequired(_) => CallEnd::Result {
            text: "The tool asks for more input, which Herma does not give to tools.".to_owned(),
            is_error: true,
        },
        _ => CallEnd::Uncertain("The tool goes on in the background, which Herma does not follow.".to_owned()),
    }
}

/// The texts and a line for everything else, joined by line breaks. Without any of them, the structured content.
fn text(result: CallToolResult) -> String {
    let has_text = result.content.iter().any(|block| matches!(block, ContentBlock::Text(_)));
    let structured = result.structured_content.filter(|_| !has_text).map(|content| content.to_string());
    let parts: Vec<String> = result.content.into_iter().map(part).chain(structured).collect();
    parts.join("\n")
}

fn part(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => not_shown("An image", Some(&image.mime_type), &image.data),
        ContentBlock::Audio(audio) => not_shown("A recording", Some(&audio.mime_type), &audio.data),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => text,
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                not_shown(&format!("A file, {uri},"), mime_type.as_deref(), &blob)
            }
            _ => "[A resource that is not shown.]".to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[A resource: {} ({})]", link.uri, link.name),
        _ => "[Something that is not shown.]".to_owned(),
    }
}

fn not_shown(what: &str, mime_type: Option<&str>, base64: &str) -> String {
    let mime_type = mime_type.unwrap_or("application/octet-stream");
    format!("[{what} ({mime_type}, {} bytes) that is not shown.]", decoded_length(base64))
}

/// How many bytes base64 text stands for.
fn decoded_length(base64: &str) -> usize {
    let digits = base64.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=').count();
    digits * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text_of(result: serde_json::Value) -> String {
        text(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn texts_are_joined_and_everything_else_becomes_a_line() {
        let content = json!([
            {"type": "text", "text": "one"},
            {"type": "image", "mimeType": "image/png", "data": "AAAAAAA="},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAAAA=="}},
            {"type": "resource_link", "uri": "file:///c", "name": "c"},
            {"type": "text", "text": "two"},
        ]);
        let expected = "one\n[An image (image/png, 5 bytes) that is not shown.]\n\
            [A recording (audio/wav, 3 bytes) that is not shown.]\ninside\n\
            [A file, file:///b, (application/octet-stream, 4 bytes) that is not shown.]\n\
            [A resource: file:///c (c)]\ntwo";
        assert_eq!(text_of(json!({"content": content, "structuredContent": {"a": 1}})), expected);
    }

    #[test]
    fn structured_content_is_shown_where_there_is_no_text() {
        assert_eq!(text_of(json!({"content": [], "structuredContent": {"a": [1]}})), r#"{"a":[1]}"#);
        assert_eq!(text_of(json!({"content": []})), "");
    }
}

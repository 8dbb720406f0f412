//! The content of a prompt as one user message, and of stored messages as content.

use herma_model::Utterance;
use herma_wire::chat::{simple_user, single};
use serde_json::{Value, json};

use crate::error::bad_params;
use crate::schema::{
    ContentBlock, ContentChunk, EmbeddedResourceResource, Error, ImageContent, MessageId, TextContent,
};

/// A prompt as the message that the model is shown.
///
/// Texts and links stay in their order. The content of embedded files follows after them, and then the images.
pub(crate) fn user_message(prompt: &[ContentBlock]) -> Result<Utterance, Error> {
    let (mut text, mut files, mut images) = (String::new(), String::new(), Vec::new());
    for block in prompt {
        match block {
            ContentBlock::Text(part) => text.push_str(&part.text),
            ContentBlock::ResourceLink(link) => text.push_str(&format!("[{}]({})", link.name, link.uri)),
            ContentBlock::Image(image) => images.push(image_part(&image.mime_type, &image.data)),
            ContentBlock::Resource(embedded) => match &embedded.resource {
                EmbeddedResourceResource::TextResourceContents(file) => {
                    text.push_str(&format!("<{}>", file.uri));
                    files.push_str(&format!("\n\n{}\n```\n{}\n```", file.uri, file.text));
                }
                EmbeddedResourceResource::BlobResourceContents(file) => match &file.mime_type {
                    Some(kind) if kind.starts_with("image/") => images.push(image_part(kind, &file.blob)),
                    _ => text.push_str(&format!("<{}>", file.uri)),
                },
                _ => return Err(bad_params("the prompt has a resource that the agent cannot read")),
            },
            _ => return Err(bad_params("the prompt has content of a type that the agent does not take")),
        }
    }
    text.push_str(&files);
    if images.is_empty() {
        return if text.is_empty() { Err(bad_params("the prompt is empty")) } else { Ok(simple_user(&text)) };
    }
    let words = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
    let parts: Vec<Value> = words.into_iter().chain(images).collect();
    let message = json!({ "role": "user", "content": parts }).to_string();
    single(&message).map_err(|_| bad_params("the prompt cannot be read as a message"))
}

fn image_part(kind: &str, data: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": format!("data:{kind};base64,{data}") } })
}

/// The parts of a stored message, as content.
pub(crate) fn parts(said: &Utterance) -> Vec<ContentBlock> {
    let payload: Value = serde_json::from_str(said.payload.as_json()).unwrap_or_default();
    match &payload["content"] {
        Value::String(text) if !text.is_empty() => vec![text_block(text)],
        Value::Array(parts) => parts.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}

fn part(part: &Value) -> Option<ContentBlock> {
    if let Some(text) = part["text"].as_str() {
        return Some(text_block(text));
    }
    let url = part["image_url"]["url"].as_str()?;
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    Some(match data {
        Some((kind, data)) => ContentBlock::Image(ImageContent::new(data, kind)),
        None => text_block(url),
    })
}

pub(crate) fn text_block(text: &str) -> ContentBlock {
    ContentBlock::Text(TextContent::new(text))
}

/// A piece of a message.
pub(crate) fn chunk(message: &impl ToString, content: ContentBlock) -> ContentChunk {
    ContentChunk::new(content).message_id(MessageId::new(message.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(json: Value) -> Vec<ContentBlock> {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn words_links_and_files_are_one_text() {
        let prompt = blocks(json!([
            { "type": "text", "text": "Look at " },
            { "type": "resource_link", "name": "a.rs", "uri": "file:///a.rs" },
            { "type": "text", "text": " and " },
            { "type": "resource", "resource": { "uri": "file:///b.rs", "text": "fn b() {}" } },
        ]));
        let said = user_message(&prompt).unwrap();
        let expected = "Look at [a.rs](file:///a.rs) and <file:///b.rs>\n\nfile:///b.rs\n```\nfn b() {}\n```";
        assert_eq!(said.payload.text().as_deref(), Some(expected));
    }

    #[test]
    fn images_come_back_as_they_were_sent() {
        let prompt = blocks(json!([
            { "type": "text", "text": "What is this?" },
            { "type": "image", "mimeType": "image/png", "data": "aGk=" },
        ]));
        assert_eq!(parts(&user_message(&prompt).unwrap()), prompt);
    }

    #[test]
    fn an_empty_prompt_is_refused() {
        assert!(user_message(&[]).is_err());
    }
}

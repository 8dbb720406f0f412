//! The bodies that clients send about conversations. Unknown fields are ignored, as OpenAI does.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::bad_request::{BadRequest, Flaw};
use crate::client_tools::ClientTools;
use crate::json::{Object, elements};
use crate::responses::{Input, InputStyle, KeptItems, metadata, read_field, read_items, read_object, references_in};

/// The largest number of items in one request.
const MAX_ITEMS: usize = 20;

/// The body of `POST /v1/conversations`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreateConversation {
    /// The items that the conversation begins with.
    pub items: Input,
    /// The client's metadata, a JSON object.
    pub metadata: Option<Arc<str>>,
}

impl CreateConversation {
    /// Reads a body. An empty one counts as `{}`. `kept` has the items that [`references`] names.
    pub fn parse(body: &[u8], kept: &KeptItems) -> Result<Self, BadRequest> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let mut body = read_object(body)?;
        let items = read_field(&mut body, "items", |raw| items(raw, kept))?.unwrap_or_default();
        Ok(Self { items, metadata: take_metadata(&mut body)? })
    }
}

/// The body of `POST /v1/conversations/{id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateConversation {
    /// The new metadata, a JSON object.
    pub metadata: Arc<str>,
}

impl UpdateConversation {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        let metadata = take_metadata(&mut read_object(body)?)?;
        Ok(Self { metadata: metadata.ok_or_else(|| Flaw::at("metadata", "is required"))? })
    }
}

/// The body of `POST /v1/conversations/{id}/items`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateItems {
    /// The items to add to the conversation.
    pub items: Input,
}

impl CreateItems {
    /// Reads a body. `kept` has the items that [`references`] names.
    pub fn parse(body: &[u8], kept: &KeptItems) -> Result<Self, BadRequest> {
        let items = read_field(&mut read_object(body)?, "items", |raw| match elements(raw)?.len() {
            0 => Err(Flaw::new("must not be empty")),
            _ => items(raw, kept),
        });
        Ok(Self { items: items?.ok_or_else(|| Flaw::at("items", "is required"))? })
    }
}

/// The ids of the items that the `items` of a body refer to, each once. This costs almost nothing if there are none.
pub fn references(body: &[u8]) -> Result<Vec<String>, BadRequest> {
    references_in(body, "items")
}

fn items(raw: &RawValue, kept: &KeptItems) -> Result<Input, Flaw> {
    let items = elements(raw)?;
    if items.len() > MAX_ITEMS {
        return Err(Flaw::new(format!("must not have more than {MAX_ITEMS} items: send the others afterwards")));
    }
    read_items(&items, kept, &ClientTools::default(), InputStyle::Items)
}

fn take_metadata(body: &mut Object<'_>) -> Result<Option<Arc<str>>, Flaw> {
    Ok(read_field(body, "metadata", metadata)?.map(Arc::from))
}

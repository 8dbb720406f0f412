//! The Conversations API: what clients say about conversations and their items, and how a conversation is shown.
//!
//! Items are read as the input of a response is; lists of them are [`crate::responses::item_list`].

mod object;
mod request;

pub use object::{ConversationObject, conversation_list, deleted_json};
pub use request::{CreateConversation, CreateItems, UpdateConversation, references};

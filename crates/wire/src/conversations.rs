//! The Conversations API: requests about conversations and their items, and the conversation object.
//!
//! Items are read like the input of a response. Lists of them are [`crate::responses::item_list`].

mod object;
mod request;

pub use object::{ConversationObject, conversation_list, deleted_json};
pub use request::{CreateConversation, CreateItems, UpdateConversation, references};

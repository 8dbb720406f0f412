//! The Responses API: a request in; a response object, its items and its events out.
//!
//! | file | owns |
//! |---|---|
//! | `request` | the body of `POST /v1/responses` |
//! | `input`, `content` | its items, said in the words of chat completions |
//! | `params`, `tools`, `format` | its other fields, for the model server and for the echo |
//! | `echo` | what a response object repeats of its request |
//! | `item`, `transcript` | items, and the items that a stored message is |
//! | `object` | the response object |
//! | `events` | the stream of a response |
//!
//! Every message that comes in becomes a chat message and is read by [`crate::chat`], so it has the payload and the digest it
//! would have had through that door. Nothing here decides about conversations.

mod content;
mod echo;
mod events;
mod format;
mod input;
mod item;
mod object;
mod params;
mod request;
mod tools;
mod transcript;

pub use echo::Echo;
pub use events::{Ending, Events, Frame};
pub use item::{Item, ItemStatus, Part, item_list};
pub use object::{About, IncompleteReason, Outcome, ResponseError, ResponseObject, ResponseState};
pub use request::{ResponsesRequest, Truncation, parse};
pub use transcript::{compaction_item, items_of, output_items};

//! The Responses API: a request in; a response object, its items and its events out.
//!
//! | file | owns |
//! |---|---|
//! | `request` | the body of `POST /v1/responses` |
//! | `message` | what stands beside it in a message of a WebSocket |
//! | `input`, `content` | its items, said in the words of chat completions |
//! | `chat_style` | messages of chat completions among them |
//! | `references` | the items that it names instead of sending them |
//! | `summary` | what a compaction hands to its client |
//! | `params`, `tools`, `format` | its other fields, for the model server and for the echo |
//! | `echo` | what a response object repeats of its request |
//! | `item`, `transcript` | items, and the items that a stored message is |
//! | `logprobs` | the probabilities of their words |
//! | `removal` | a message without one of its items |
//! | `object`, `context` | the response object, and what else is said about a context |
//! | `events` | the stream of a response |
//!
//! Every message that comes in becomes a chat message and is read by [`crate::chat`], so it has the payload and the digest it
//! would have had through that door. Nothing here decides about conversations.

mod chat_style;
mod content;
mod context;
mod echo;
mod events;
mod format;
mod input;
mod item;
mod logprobs;
mod message;
mod object;
mod params;
mod references;
mod removal;
mod request;
mod summary;
mod tools;
mod transcript;

pub use crate::sse::Frame;
pub(crate) use chat_style::Words;
pub use context::{CompactionObject, input_tokens_json};
pub use echo::Echo;
pub use events::{Ending, Events};
pub(crate) use input::read_items;
pub use input::{Input, KeptItems};
pub use item::{Item, ItemStatus, Part, item_list};
pub use message::{check_message, continued_response};
pub use object::{About, IncompleteReason, ResponseError, ResponseObject, ResponseOutcome, ResponseState};
pub(crate) use params::{metadata, within};
pub use references::references;
pub(crate) use references::references_in;
pub use removal::{message_of_item, without_item};
pub use request::{ResponsesRequest, Truncation, parse, parse_compaction, parse_context, parse_with};
pub(crate) use request::{read_object, read_with_input};
pub use summary::{open_summary, seal_summary};
pub use transcript::{compaction_item, items_of, output_items};

//! The Responses API: reads requests, writes response objects, items and events.
//!
//! | file | owns |
//! |---|---|
//! | `request` | the body of `POST /v1/responses` |
//! | `message` | what a WebSocket message has beside that body |
//! | `input`, `content` | the items of a request, translated to chat messages |
//! | `chat_style` | chat messages among these items |
//! | `known` | what is known before a request is read |
//! | `references` | items that a request names instead of sending them |
//! | `summary` | the summary that a compaction gives to its client |
//! | `params`, `tools`, `format` | the other fields, for the model server and for the echo |
//! | `echo` | the request fields that a response object repeats |
//! | `item`, `transcript` | items, and the items of a stored message |
//! | `mcp` | the items of calls of Herma's own tools |
//! | `logprobs` | the log probabilities of a text |
//! | `removal` | a message without one of its items |
//! | `object`, `context` | the response object; token counts and compaction objects |
//! | `events` | the event stream of a response |
//!
//! Every incoming message becomes a chat message, and [`crate::chat`] reads it. So it has the same payload and digest
//! as if it had come through chat completions. Nothing here decides about conversations.

mod chat_style;
mod content;
mod context;
mod echo;
mod events;
mod format;
mod input;
mod item;
mod known;
mod logprobs;
mod mcp;
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
pub(crate) use chat_style::InputStyle;
pub use context::{CompactionObject, input_tokens_json};
pub use echo::Echo;
pub use events::{Ending, Events, output};
pub(crate) use input::read_items;
pub use input::{Input, KeptItems};
pub use item::{Item, ItemStatus, McpError, McpErrorText, Part, item_list};
pub use known::{HostedTools, Known};
pub use message::{check_message, continued_response};
pub use object::{About, IncompleteReason, ResponseError, ResponseObject, ResponseOutcome, ResponseState};
pub(crate) use params::{metadata, read_field};
pub use references::references;
pub(crate) use references::references_in;
pub use removal::{message_of_item, without_item};
pub use request::{ResponsesRequest, Truncation, parse, parse_compaction, parse_context, parse_with};
pub(crate) use request::{read_object, read_with_input};
pub use summary::{open_summary, seal_summary};
pub use transcript::{compaction_item, items_of, items_with_results, output_items};

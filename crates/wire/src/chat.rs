//! Chat completions: reads requests, writes answers and streams, and defines the stored form of messages.
//!
//! A message has one canonical form, its payload: compact JSON, with `role` and `content` first. The store keeps the
//! payload, and model servers are sent it. What else a model server said about an answer is stored beside the payload.
//! Clients see it, but it is never sent back. Two messages are the same if their digests are equal, however their
//! clients spelled them.

mod answer;
mod chunk;
mod completion;
mod content;
mod extra;
mod identity;
mod joined;
mod message;
mod params;
mod part;
mod request;
pub(crate) mod tool_calls;
mod typed;
mod usage;

pub use answer::{answer_of, assistant_utterance, client_utterance, shown_text};
pub use chunk::{delta_chunk, finish_chunk, role_chunk, usage_chunk, whole_answer_deltas, write_text_chunks};
pub use completion::{Head, completion, completion_id};
pub use extra::reasoning_text;
pub(crate) use extra::{Extra, PHASE, logprobs};
pub use joined::JoinedTexts;
pub(crate) use message::{RequestMessage, read as read_message};
pub(crate) use params::{begins, number, positive};
pub(crate) use part::{AnswerPart, without};
pub use request::{ChatRequest, parse};
pub use typed::{simple_user, single};

//! Chat completions: a request in, an answer or a stream of it out, and the form both have in the transcript.
//!
//! A message has one canonical form, its payload: compact JSON, `role` and `content` first. It is what the store
//! keeps and what model servers are sent. What a model server said about an answer beyond that is kept beside the
//! payload and shown to clients, never sent back. Two messages are the same message when their digests are
//! equal, whatever spelling their clients chose.

mod answer;
mod chunk;
mod completion;
mod content;
mod extra;
mod identity;
mod message;
mod params;
mod part;
mod request;
pub(crate) mod tool_calls;
mod typed;
mod usage;

pub use answer::{answer_of, assistant_utterance, shown_text};
pub use chunk::{delta_chunk, finish_chunk, role_chunk, usage_chunk, whole_answer_deltas};
pub use completion::{Head, completion};
pub(crate) use extra::{Extra, PHASE, logprobs, reasoning_text};
pub(crate) use message::{Spoken, read as read_message};
pub(crate) use params::{begins, number, positive};
pub(crate) use part::{AnswerPart, without};
pub use request::{ChatRequest, parse};
pub use typed::{simple_user, single};

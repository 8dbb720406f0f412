//! The rules of one turn as pure functions: no IO, no clock, no runtime.
//!
//! - [`allowed`]: which tools the model may call.
//! - [`mod@align`]: which messages of a request are new.
//! - [`mod@recognise`]: how the history of a client that names no conversation differs from a transcript.
//! - [`pairing`]: whether tool results answer open calls.
//! - [`seen`]: whether a request shows that its client has not seen the answer to it.
//! - [`context`]: what the model is shown.
//! - [`compaction`]: when the context is too long, and which messages stay.
//! - [`summary`]: the request for a summary, and whether the answer can be used.
//! - [`sentences`]: where a summary that is too long can be cut.
//! - [`title`]: the title of a conversation that no client gave a title.
//! - [`machine`]: the loop of a turn, from measuring the context to its end.
//! - [`pieces`]: the pieces of an answer, put together.
//! - [`rules`]: whose tools an answer calls, and what of it is shown while it comes.
//! - [`words`]: the sentences of the gateway that a model sees.

pub mod align;
pub mod allowed;
pub mod compaction;
pub mod context;
pub mod facts;
pub mod machine;
pub mod pairing;
mod pieces;
pub mod recognise;
pub mod rules;
pub mod seen;
mod sentences;
pub mod summary;
pub mod title;
pub mod words;

#[cfg(test)]
mod testing;

pub use align::{Alignment, align, align_after, may_be_missing};
pub use allowed::AllowedTools;
pub use compaction::{Budget, Plan};
pub use context::{Transcript, build, truncated};
pub use machine::{CallPlace, ContextFit, Effect, Ending, Event, Machine, Need, Stop, Task, ToolRound, ToolsRan};
pub use pairing::{BadToolResult, check_tool_results};
pub use recognise::{Recognised, Replacement, recognise};
pub use rules::{OwnTools, ToolRules};
pub use seen::repeats_history;

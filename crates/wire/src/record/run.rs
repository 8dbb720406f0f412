//! The lines of a record.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A text, or where to find it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Cut {
    /// The next so many bytes of what is stored elsewhere.
    Stored(usize),
    /// The text itself.
    Text(String),
}

/// Log probabilities, or how many of those that are stored elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Probabilities {
    Stored(usize),
    Values(Vec<Value>),
}

/// Consecutive pieces of one kind: a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Run {
    #[serde(rename = "t")]
    Text(Vec<Cut>),
    #[serde(rename = "f")]
    Refusal(Vec<Cut>),
    /// Reasoning that the model server called `reasoning_content`.
    #[serde(rename = "r")]
    ReasoningContent(Vec<Cut>),
    /// Reasoning that it called `reasoning`.
    #[serde(rename = "s")]
    Reasoning(Vec<Cut>),
    /// So many bytes of `reasoning` that came beside `reasoning_content` and were not shown.
    #[serde(rename = "h")]
    Hidden(usize),
    /// A piece of a call that says what it is: its index, its id, its name, and the arguments that came with them.
    #[serde(rename = "c")]
    Call(u32, Option<String>, Option<String>, Option<Cut>),
    /// Nothing but arguments of the call with that index.
    #[serde(rename = "a")]
    Arguments(u32, Vec<Cut>),
    #[serde(rename = "l")]
    Probabilities(Probabilities),
    /// A compaction, by its id.
    #[serde(rename = "k")]
    Compacted(String),
}

//! The lines of a record.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A text, or its length if it is stored elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum TextPiece {
    /// This many bytes, the next ones of the stored text.
    Stored(usize),
    /// The text itself.
    Text(String),
}

/// Log probabilities, or their number if they are stored elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Probabilities {
    Stored(usize),
    Values(Vec<Value>),
}

/// One line: consecutive pieces of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum RecordLine {
    #[serde(rename = "t")]
    Text(Vec<TextPiece>),
    #[serde(rename = "f")]
    Refusal(Vec<TextPiece>),
    /// Reasoning that the model server called `reasoning_content`.
    #[serde(rename = "r")]
    ReasoningContent(Vec<TextPiece>),
    /// Reasoning that it called `reasoning`.
    #[serde(rename = "s")]
    Reasoning(Vec<TextPiece>),
    /// This many bytes of `reasoning` came beside `reasoning_content` and were not streamed.
    #[serde(rename = "h")]
    Hidden(usize),
    /// A piece of a call that is more than arguments: index, id, name, and the arguments that came with them.
    #[serde(rename = "c")]
    Call(u32, Option<String>, Option<String>, Option<TextPiece>),
    /// Pieces that have only arguments of the call with that index.
    #[serde(rename = "a")]
    Arguments(u32, Vec<TextPiece>),
    #[serde(rename = "l")]
    Probabilities(Probabilities),
    /// A compaction, by its id.
    #[serde(rename = "k")]
    Compacted(String),
}

//! Records in what pieces a turn was streamed, so that every API can give the same events again later.
//!
//! The steps of a turn are stored as messages and compactions. A record stores only how they were cut into pieces. It
//! is lines of JSON; each line is a run of pieces of the same kind. So records can be concatenated: the result is the
//! record of all their pieces. If a piece's text is stored elsewhere, the record has its length in bytes. Otherwise the
//! record has the text.
//!
//! A record gives back texts, refusals, reasoning, calls, log probabilities and compactions, in their order and their
//! pieces. A delta with several of them comes back as several deltas. Empty deltas are left out. Log probabilities come
//! before the run of text that they belong to.
//!
//! A turn may have several model messages. Each has its own record. [`join`] makes one text of them, and [`parts`]
//! takes it apart.

mod line;
mod read;
mod write;

use std::borrow::Cow;

use herma_model::{Answer, CompactionId, Delta, TextRun};

/// A part of a turn's streamed output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Pieces of the answer that have text and nothing else.
    Text(Cow<'a, TextRun>),
    /// Any other piece of the answer.
    Delta(Cow<'a, Delta>),
    /// The context was compacted.
    Compacted(CompactionId),
}

/// Separates the records of two model messages of a turn.
pub const NEXT_MESSAGE: &str = "{\"m\":1}\n";

/// Makes the record of a turn from the records of its model messages.
pub fn join(parts: impl IntoIterator<Item = String>) -> String {
    let mut parts = parts.into_iter();
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |whole, part| whole + NEXT_MESSAGE + &part)
}

/// The records of a turn's model messages. There is always at least one, that of the last message.
pub fn parts(record: &str) -> impl Iterator<Item = &str> {
    record.split(NEXT_MESSAGE)
}

/// The record of a complete model message. It has only lengths, because the texts are in the stored answer.
pub fn of_answered<'a>(steps: impl IntoIterator<Item = Piece<'a>>) -> String {
    write::record(steps, write::StoredElsewhere::Answer)
}

/// The record of a model message that was cut off, or of some pieces of a message that still streams.
///
/// Only the answer's text is stored elsewhere; the record holds everything else. The records of consecutive pieces,
/// concatenated, are the record of them all.
pub fn of_shown<'a>(steps: impl IntoIterator<Item = Piece<'a>>) -> String {
    write::record(steps, write::StoredElsewhere::Text)
}

/// Reads [`of_answered`] back, with the stored answer. `None` if the two do not match: the record is damaged or belongs
/// to another answer.
pub fn steps(record: &str, answer: &Answer) -> Option<Vec<Piece<'static>>> {
    let mut texts = read::StoredTexts::of_answer(answer);
    let steps = read::steps(record, &mut texts)?;
    texts.are_used_up().then_some(steps)
}

/// Reads [`of_shown`] back, with the text that was streamed. Text after the end of the record is ignored. `None` if the
/// record is damaged or needs text that is missing.
pub fn shown_steps(record: &str, content: &str) -> Option<Vec<Piece<'static>>> {
    read::steps(record, &mut read::StoredTexts::of_text(content))
}

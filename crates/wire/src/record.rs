//! In what pieces the steps of a turn were shown, so that the same events can be given again later, by any door.
//!
//! The steps of a turn are stored as messages and compactions. A record stores only how they were cut into pieces. A
//! record is lines of JSON, one a run of pieces of the same kind, so records that follow each other are one record when they are put
//! together. A piece is a number, its length in bytes, where its text is stored elsewhere, and the text itself where it is not.
//!
//! What comes back is what a stream of events shows: texts, refusals, reasoning, calls, log probabilities and compactions, in their
//! order and their pieces. A delta that had several of them comes back as several, empty ones are left out, and log probabilities
//! come before the run of text that they belong to.
//!
//! A turn may have several model messages. Each has a record of its own, and [`join`] and [`parts`] make one text of
//! them and take it apart.

mod read;
mod run;
mod write;

use std::borrow::Cow;

use herma_model::{Answer, CompactionId, Delta};

/// One thing that was shown while a turn ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A piece of the answer.
    Delta(Cow<'a, Delta>),
    /// The context was compacted.
    Compacted(CompactionId),
}

/// Stands between the records of two model messages of a turn.
const NEXT_MESSAGE: &str = "{\"m\":1}\n";

/// The record of a turn, from those of its model messages.
pub fn join(parts: impl IntoIterator<Item = String>) -> String {
    let mut parts = parts.into_iter();
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |whole, part| whole + NEXT_MESSAGE + &part)
}

/// The records of a turn's model messages. There is always one, of the last message.
pub fn parts(record: &str) -> impl Iterator<Item = &str> {
    record.split(NEXT_MESSAGE)
}

/// The record of a whole model message. Texts are cut out of the stored answer again, so only their lengths are kept.
pub fn of_answered<'a>(steps: impl IntoIterator<Item = Piece<'a>>) -> String {
    write::record(steps, write::Kept::Answer)
}

/// The record of a model message that was cut off, or of some pieces of one that still comes.
///
/// Only what was said is stored elsewhere, as text; everything else is kept in the record itself. The records of consecutive steps, put
/// together, are the record of them all.
pub fn of_shown<'a>(steps: impl IntoIterator<Item = Piece<'a>>) -> String {
    write::record(steps, write::Kept::Said)
}

/// The steps of [`of_answered`], with the stored answer. Absent when the two do not fit: then the record is damaged, or it is of
/// another answer.
pub fn steps(record: &str, answer: &Answer) -> Option<Vec<Piece<'static>>> {
    let mut cuts = read::Cuts::of_answer(answer);
    let steps = read::steps(record, &mut cuts)?;
    cuts.are_used_up().then_some(steps)
}

/// The steps of [`of_shown`], with the text that was said. Text beyond the record is left out. Absent when the record is damaged, or is
/// of a text that is not there.
pub fn shown_steps(record: &str, content: &str) -> Option<Vec<Piece<'static>>> {
    read::steps(record, &mut read::Cuts::of_text(content))
}

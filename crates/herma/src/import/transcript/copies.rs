//! Which rows say again what was said before.
//!
//! Hermes writes messages anew when it compacts, and some of its doors write all of a session once more when they end it. Such a copy has the
//! time of its message where Hermes knew that, and says the same but for what was shortened: results of tools, arguments of calls, images.

use std::sync::Arc;

use herma_model::{CallId, Digest, Role, Utterance};
use serde_json::Value;

/// What Hermes puts where an image was.
const INSTEAD_OF_IMAGES: [&str; 3] =
    ["[screenshot]", "[Attached image — stripped after compression]", "[screenshot removed to save context]"];
/// How far apart rows are that were written at once and did not know their time: Hermes counts on by one microsecond.
const ONE_WRITING: f64 = 5e-6;
/// How many known messages are looked through for each row that was written with a summary.
const KNOWN_PER_ROW: usize = 8;

/// What a message is compared by.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Mark {
    role: Role,
    /// When it was said, unless it is a whole second: several messages can have that.
    moment: Option<f64>,
    says: Says,
}

/// What of a message stays the same in its copies.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Says {
    Text(Digest),
    Answers(CallId),
}

impl Mark {
    /// Of a message and the time it was said, in seconds.
    pub(super) fn of(said: &Utterance, time: Option<f64>) -> Self {
        let says = match (said.role, said.calls.first()) {
            (Role::Tool, Some(call)) => Says::Answers(Arc::clone(call)),
            (Role::Assistant, Some(_)) => {
                let text = Utterance::text_digest(said.role, &text(said));
                Says::Text(Digest::of_fields(
                    std::iter::once(text.0.as_slice()).chain(said.calls.iter().map(|call| call.as_bytes())),
                ))
            }
            _ if is_plain(said) => Says::Text(said.digest),
            _ => Says::Text(Utterance::text_digest(said.role, &text(said))),
        };
        Self { role: said.role, moment: time.filter(|time| time.fract() != 0.0), says }
    }

    /// Whether both are the same message, said at one moment. Results of calls that were made at once differ in their calls.
    pub(super) fn is_copy_of(&self, other: &Self) -> bool {
        let same_call = self.role != Role::Tool || self.says == other.says;
        self.role == other.role && self.moment.is_some() && self.moment == other.moment && same_call
    }

    /// Whether both say the same, or are the same message.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.says == other.says || self.is_copy_of(other)
    }

    /// Who said it.
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Its moment as something to look it up by.
    pub(super) fn moment(&self) -> Option<u64> {
        self.moment.map(f64::to_bits)
    }
}

/// Whether a message is text and nothing else, as nearly all are: its own digest is that of its text.
fn is_plain(said: &Utterance) -> bool {
    let json = said.payload.as_json();
    !json.contains("\"content\":[") && INSTEAD_OF_IMAGES.iter().all(|instead| !json.contains(instead))
}

/// The text of a message, without what stands for its images.
fn text(said: &Utterance) -> String {
    let message: Value = serde_json::from_str(said.payload.as_json()).unwrap_or_default();
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    };
    INSTEAD_OF_IMAGES.iter().fold(text, |text, instead| match text.contains(instead) {
        true => text.replace(instead, ""),
        false => text,
    })
}

/// Whether a message is several joined that were said before, as far as the first of them tells.
pub(super) fn is_joined(said: &Utterance, known: &[Mark]) -> bool {
    let text = text(said);
    beginnings(said.role, &text).any(|(says, _)| known.iter().any(|mark| mark.says == says))
}

/// What a user's message says beyond one that it begins with.
pub(super) fn beyond(said: &Utterance, known: &Mark) -> Option<String> {
    let text = text(said);
    let mut rests = beginnings(said.role, &text).filter(|(says, _)| *says == known.says).map(|(_, rest)| rest.trim());
    rests.next().filter(|_| said.role == Role::User).map(str::to_owned)
}

/// What could have been joined: each beginning that ends with an empty line, and what follows.
fn beginnings(role: Role, text: &str) -> impl Iterator<Item = (Says, &str)> {
    let border = text.match_indices("\n\n");
    border.map(move |(end, _)| (Says::Text(Utterance::text_digest(role, &text[..end])), &text[end..]))
}

/// How many of the times that follow a first one were written with it.
pub(super) fn written_at_once(first: Option<f64>, times: impl Iterator<Item = Option<f64>>) -> usize {
    let mut before = first;
    times
        .take_while(|time| {
            let at_once = before.zip(*time).is_some_and(|(before, time)| (time - before).abs() < ONE_WRITING);
            before = *time;
            at_once
        })
        .count()
}

/// Which of the rows are copies of known messages, and of which: as many as can be in the order of both, and of equal ones the latest.
pub(super) fn align(rows: &[Mark], known: &[Mark]) -> Vec<(usize, usize)> {
    let from = known.len().saturating_sub(rows.len().saturating_mul(KNOWN_PER_ROW));
    let known = &known[from..];
    let mut longest = vec![vec![0_usize; known.len() + 1]; rows.len() + 1];
    for (row, mark) in rows.iter().enumerate() {
        for (at, other) in known.iter().enumerate() {
            let either = longest[row][at + 1].max(longest[row + 1][at]);
            longest[row + 1][at + 1] = if mark.is_like(other) { either.max(longest[row][at] + 1) } else { either };
        }
    }
    let mut pairs = Vec::new();
    let (mut row, mut at) = (rows.len(), known.len());
    while row > 0 && at > 0 {
        let here = longest[row][at];
        if rows[row - 1].is_like(&known[at - 1]) && here == longest[row - 1][at - 1] + 1 {
            (row, at) = (row - 1, at - 1);
            pairs.push((row, from + at));
        } else if here == longest[row - 1][at] {
            row -= 1;
        } else {
            at -= 1;
        }
    }
    pairs.reverse();
    pairs
}

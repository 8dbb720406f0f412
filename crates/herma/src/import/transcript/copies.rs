//! Recognises rows that copy earlier messages.
//!
//! Hermes writes messages again when it compacts. Some of its front ends also write a whole session again when they end
//! it. A copy has the time of its message if Hermes knew it. The content is the same, except for what Hermes shortens:
//! tool results, arguments of calls, images.

use std::sync::Arc;

use herma_model::{CallId, Digest, Role, Utterance};
use serde_json::Value;

/// What Hermes writes in place of an image.
const INSTEAD_OF_IMAGES: [&str; 3] =
    ["[screenshot]", "[Attached image — stripped after compression]", "[screenshot removed to save context]"];
/// Rows that were written together without a time of their own are closer than this, in seconds. Hermes adds one
/// microsecond per row.
const ONE_WRITING: f64 = 5e-6;
/// How many of the last known messages are searched for each row that was written with a summary.
const KNOWN_PER_ROW: usize = 8;

/// What a message is compared by.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fingerprint {
    role: Role,
    /// When it was said. `None` for a whole second, because several messages can have the same one.
    moment: Option<f64>,
    content: FingerprintContent,
}

/// The part of a message that its copies keep.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FingerprintContent {
    Text(Digest),
    Answers(CallId),
}

impl Fingerprint {
    /// Reads a message and its time in seconds.
    pub(super) fn of(said: &Utterance, time: Option<f64>) -> Self {
        let content = match (said.role, said.calls.first()) {
            (Role::Tool, Some(call)) => FingerprintContent::Answers(Arc::clone(call)),
            (Role::Assistant, Some(_)) => {
                let text = Utterance::text_digest(said.role, &text(said));
                FingerprintContent::Text(Digest::of_fields(
                    std::iter::once(text.0.as_slice()).chain(said.calls.iter().map(|call| call.as_bytes())),
                ))
            }
            _ if is_plain(said) => FingerprintContent::Text(said.digest),
            _ => FingerprintContent::Text(Utterance::text_digest(said.role, &text(said))),
        };
        Self { role: said.role, moment: time.filter(|time| time.fract() != 0.0), content }
    }

    /// Whether both are the same message, by role and time. Results of parallel calls have the same time, so their
    /// calls are compared too.
    pub(super) fn is_copy_of(&self, other: &Self) -> bool {
        let same_call = self.role != Role::Tool || self.content == other.content;
        self.role == other.role && self.moment.is_some() && self.moment == other.moment && same_call
    }

    /// Whether both have the same content, or are the same message by their time.
    pub(super) fn matches(&self, other: &Self) -> bool {
        self.content == other.content || self.is_copy_of(other)
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// The time as a key of a map.
    pub(super) fn moment(&self) -> Option<u64> {
        self.moment.map(f64::to_bits)
    }
}

/// Whether a message is only text, as nearly all are. Then its own digest is that of its text.
fn is_plain(said: &Utterance) -> bool {
    let json = said.payload.as_json();
    !json.contains("\"content\":[") && INSTEAD_OF_IMAGES.iter().all(|instead| !json.contains(instead))
}

/// The text of a message, without the placeholders of images.
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

/// Whether a message joins earlier messages. Only the first of them is checked.
pub(super) fn is_joined(said: &Utterance, known: &[Fingerprint]) -> bool {
    let text = text(said);
    beginnings(said.role, &text).any(|(content, _)| known.iter().any(|fingerprint| fingerprint.content == content))
}

/// The text that a user message adds to a known message that it begins with.
pub(super) fn added_text(said: &Utterance, known: &Fingerprint) -> Option<String> {
    let text = text(said);
    let mut rests =
        beginnings(said.role, &text).filter(|(content, _)| *content == known.content).map(|(_, rest)| rest.trim());
    rests.next().filter(|_| said.role == Role::User).map(str::to_owned)
}

/// Each beginning of a text that ends before an empty line, and what follows. Hermes joins messages by an empty line.
fn beginnings(role: Role, text: &str) -> impl Iterator<Item = (FingerprintContent, &str)> {
    let border = text.match_indices("\n\n");
    border.map(move |(end, _)| (FingerprintContent::Text(Utterance::text_digest(role, &text[..end])), &text[end..]))
}

/// How many of the times were written together with the first one.
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

/// Pairs of a row and the known message that it copies, in the order of both. As many pairs as possible; of equal
/// messages, the latest is taken.
pub(super) fn align(rows: &[Fingerprint], known: &[Fingerprint]) -> Vec<(usize, usize)> {
    let from = known.len().saturating_sub(rows.len().saturating_mul(KNOWN_PER_ROW));
    let known = &known[from..];
    let mut longest = vec![vec![0_usize; known.len() + 1]; rows.len() + 1];
    for (row, fingerprint) in rows.iter().enumerate() {
        for (at, other) in known.iter().enumerate() {
            let either = longest[row][at + 1].max(longest[row + 1][at]);
            longest[row + 1][at + 1] =
                if fingerprint.matches(other) { either.max(longest[row][at] + 1) } else { either };
        }
    }
    let mut pairs = Vec::new();
    let (mut row, mut at) = (rows.len(), known.len());
    while row > 0 && at > 0 {
        let here = longest[row][at];
        if rows[row - 1].matches(&known[at - 1]) && here == longest[row - 1][at - 1] + 1 {
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

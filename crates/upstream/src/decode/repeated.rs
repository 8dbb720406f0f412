//! Reads a chunk that differs from the one before in its text alone.
//!
//! Most servers repeat every other byte of a chunk. Then only the text has to be read: JSON that is equal outside one
//! string has the same fields and the same values outside that string.

use std::borrow::Cow;

use serde::Deserialize;

/// What surrounds the text in the last chunk that had a text and nothing else.
#[derive(Debug, Default)]
pub(super) struct RepeatedChunk {
    /// Everything before the text. Empty if there is no such chunk.
    before: Vec<u8>,
    /// Everything after it.
    after: Vec<u8>,
}

#[derive(Deserialize)]
struct Quoted<'a>(#[serde(borrow)] Cow<'a, str>);

impl RepeatedChunk {
    /// The text of a chunk. `None` if the chunk differs in something else.
    pub(super) fn text<'a>(&self, data: &'a [u8]) -> Option<Cow<'a, str>> {
        if self.before.is_empty() {
            return None;
        }
        let quoted = data.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?;
        serde_json::from_slice::<Quoted<'a>>(quoted).ok().map(|text| text.0)
    }

    /// Notes a chunk. `text` is the part of `data` between the quotes of its text.
    pub(super) fn note(&mut self, data: &[u8], text: &str) {
        self.forget();
        let start = text.as_ptr().addr().checked_sub(data.as_ptr().addr());
        let quotes = start.and_then(|start| Some((start.checked_sub(1)?, start + text.len())));
        let Some((opening, closing)) = quotes else { return };
        if let (Some(before), Some(after)) = (data.get(..opening), data.get(closing + 1..)) {
            self.before.extend_from_slice(before);
            self.after.extend_from_slice(after);
        }
    }

    /// Forgets the last chunk, because another kind of chunk came.
    pub(super) fn forget(&mut self) {
        self.before.clear();
        self.after.clear();
    }
}

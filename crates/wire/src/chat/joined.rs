//! The texts of a turn's model messages as one text, while it is streamed.

use herma_model::{Delta, Step};

/// What stands between the texts of two messages.
const BLANK_LINE: &str = "\n\n";

/// Says where a blank line has to stand between the texts of a turn's messages.
#[derive(Debug, Clone, Copy, Default)]
pub struct JoinedTexts {
    /// Whether text was shown.
    any_text: bool,
    /// Whether a message has ended since.
    is_next_message: bool,
}

impl JoinedTexts {
    /// The turn made a step.
    pub const fn step(&mut self, step: &Step) {
        if step.model_message().is_some() {
            self.is_next_message = self.any_text;
        }
    }

    /// The piece to show before this one, if this one begins the text of a later message.
    pub fn separator(&mut self, delta: &Delta) -> Option<Delta> {
        if delta.content.as_ref().is_none_or(String::is_empty) {
            return None;
        }
        self.before_text()
    }

    /// The piece to show before text, if the text begins that of a later message.
    pub fn before_text(&mut self) -> Option<Delta> {
        self.any_text = true;
        let is_next = std::mem::take(&mut self.is_next_message);
        is_next.then(|| Delta { content: Some(BLANK_LINE.to_owned()), ..Delta::default() })
    }
}

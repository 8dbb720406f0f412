//! Prints the texts of a turn on stdout while they stream: a blank line between the texts of two messages.

use std::io;

use herma_gateway::Finished;
use herma_model::{Delta, Utterance};
use herma_wire::chat::shown_text;

use crate::output;

/// Prints the answer of one turn.
#[derive(Default)]
pub(super) struct AnswerPrinter {
    /// What was printed of the message that the model is saying.
    printed: String,
    /// Whether the cursor stands in the middle of a line.
    is_mid_line: bool,
    /// Whether an earlier message of the turn had text.
    has_earlier: bool,
}

impl AnswerPrinter {
    /// Prints a piece of a message.
    pub(super) fn delta(&mut self, delta: &Delta) -> io::Result<()> {
        for text in [&delta.content, &delta.refusal].into_iter().flatten() {
            self.text(text)?;
        }
        Ok(())
    }

    /// Ends a message in the middle of the turn. Prints what no piece had: after a question the rest of a turn may come
    /// without pieces.
    pub(super) fn end_message(&mut self, said: &Utterance) -> io::Result<()> {
        self.rest_of(&shown_text(said).unwrap_or_default())?;
        self.end_line()?;
        self.has_earlier |= !self.printed.is_empty();
        self.printed.clear();
        Ok(())
    }

    /// Ends the answer. Prints what no piece had.
    pub(super) fn finish(&mut self, finished: &Finished) -> io::Result<()> {
        self.rest_of(&shown_text(&finished.message.said).unwrap_or_default())?;
        if let Some(refusal) = finished.answer.refusal.as_deref().filter(|_| self.printed.is_empty()) {
            self.text(refusal)?;
        }
        self.end_line()
    }

    /// Ends the line, so that something else can be printed.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_mid_line) { output::piece("\n") } else { Ok(()) }
    }

    fn rest_of(&mut self, whole: &str) -> io::Result<()> {
        let rest = whole.strip_prefix(self.printed.as_str()).unwrap_or_default().to_owned();
        self.text(&rest)
    }

    /// Prints text of a message.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.printed.is_empty() && self.has_earlier {
            output::piece("\n")?;
        }
        self.printed.push_str(text);
        self.is_mid_line = !text.ends_with('\n');
        output::piece(text)
    }
}

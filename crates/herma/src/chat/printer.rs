//! Prints the texts of a turn on stdout while they stream: a blank line between the texts of two messages. A terminal
//! is shown Markdown as what it means; a file or a pipe gets what the model wrote.

use std::io;

use herma_gateway::Finished;
use herma_model::{Delta, Utterance};
use herma_wire::chat::shown_text;

use crate::markdown::Markdown;
use crate::output;
use crate::terminal::Stream;

/// Prints the answer of one turn.
pub(super) struct AnswerPrinter {
    /// How a terminal shows it. `None` if stdout is no terminal.
    markdown: Option<Markdown>,
    /// Whether the answer is not printed piece by piece.
    is_silent: bool,
    /// What was printed of the message that the model is saying.
    printed: String,
    /// Whether the cursor stands in the middle of a line.
    is_mid_line: bool,
    /// Whether an earlier message of the turn had text.
    has_earlier: bool,
}

impl AnswerPrinter {
    /// Prints for the stdout of this process, or nothing.
    pub(super) fn new(is_silent: bool) -> Self {
        let markdown = Stream::Stdout.width().map(|width| Markdown::new(width, Stream::Stdout.has_colours()));
        Self { markdown, is_silent, printed: String::new(), is_mid_line: false, has_earlier: false }
    }

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
        if let Some(rest) = self.markdown.as_mut().map(Markdown::finish) {
            output::raw_piece(&rest)?;
        }
        if std::mem::take(&mut self.is_mid_line) { output::raw_piece("\n") } else { Ok(()) }
    }

    /// Whether something was printed of the message that the model is saying.
    pub(super) fn has_begun(&self) -> bool {
        !self.printed.is_empty()
    }

    fn rest_of(&mut self, whole: &str) -> io::Result<()> {
        let rest = whole.strip_prefix(self.printed.as_str()).unwrap_or_default().to_owned();
        self.text(&rest)
    }

    /// Prints text of a message.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() || self.is_silent {
            return Ok(());
        }
        if self.printed.is_empty() && self.has_earlier {
            output::raw_piece("\n")?;
        }
        self.printed.push_str(text);
        self.is_mid_line = !text.ends_with('\n');
        match &mut self.markdown {
            Some(markdown) => {
                Stream::Stdout.width().into_iter().for_each(|width| markdown.set_width(width));
                output::raw_piece(&markdown.push(&output::printable(text)))
            }
            None => output::raw_piece(text),
        }
    }
}

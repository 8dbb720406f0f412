//! Shows Markdown in a terminal while it streams: words are wrapped at the width of the terminal, and headings, lists,
//! tables, code, emphasis and links look like what they are.
//!
//! - [`block`]: what kind of line it is.
//! - [`inline`]: emphasis, code and links in a line.
//! - [`table`]: the rows of a table.
//! - [`wrap`]: words into lines of the terminal.
//!
//! A piece is shown as soon as later pieces cannot change how it looks. Text comes without control characters, and no
//! text is lost: what is no Markdown is shown as it was written.

mod block;
mod inline;
mod table;
mod wrap;

use self::block::Block;
use self::inline::Span;
use self::wrap::Wrap;
use crate::terminal::{Colour, Style};
use crate::text_width::letters;

/// Text of one answer that becomes lines of a terminal.
pub(crate) struct Markdown {
    wrap: Wrap,
    /// Whether Markdown is shown as what it means. Otherwise it is shown as it was written.
    is_styled: bool,
    /// What came of the current line and is not shown yet.
    pending: String,
    /// The kind of the current line. `None` until enough of it has come.
    block: Option<Block>,
    /// The letter of the line that was shown last.
    before: Option<char>,
    /// The fence that ends the code block that this is in.
    fence: Option<String>,
    /// The rows of the table that this is in.
    table: Vec<String>,
}

impl Markdown {
    pub(crate) fn new(width: usize, is_styled: bool) -> Self {
        let wrap = Wrap::new(width, is_styled);
        Self { wrap, is_styled, pending: String::new(), block: None, before: None, fence: None, table: Vec::new() }
    }

    /// The width of the terminal may have changed. Lines that are shown stay as they are.
    pub(crate) fn set_width(&mut self, width: usize) {
        self.wrap.set_width(width);
    }

    /// Takes a piece, and gives what the terminal is to be sent.
    pub(crate) fn push(&mut self, text: &str) -> String {
        for part in text.split_inclusive('\n') {
            match part.strip_suffix('\n') {
                Some(rest) => {
                    self.pending.push_str(rest);
                    self.end_line();
                    if self.table.is_empty() {
                        self.wrap.line_break();
                    }
                }
                None => {
                    self.pending.push_str(part);
                    self.show_begun_line();
                }
            }
        }
        self.wrap.take()
    }

    /// Shows the rest. The cursor stays behind the last letter.
    pub(crate) fn finish(&mut self) -> String {
        let is_mid_line = !self.pending.is_empty() || self.block.is_some();
        if is_mid_line {
            self.end_line();
        }
        self.show_table();
        if !is_mid_line && self.wrap.is_mid_line() {
            self.wrap.line_break();
        }
        self.wrap.end_word();
        self.fence = None;
        self.wrap.take()
    }

    /// Shows what is certain of a line that has not ended.
    fn show_begun_line(&mut self) {
        if self.fence.is_some() {
            return;
        }
        if self.block.is_none() {
            let Some(block) = Block::of_beginning(&self.pending, self.is_styled) else { return };
            self.begin(block);
        }
        if self.block.as_ref().is_some_and(Block::is_shown_word_by_word) {
            self.show_text(false);
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.pending);
        if let Some(fence) = &self.fence {
            let is_end = block::closes(&line, fence);
            let style = if is_end { Style::DIM } else { Style::colour(Colour::Cyan) };
            self.wrap.verbatim(&line, style);
            if is_end {
                self.fence = None;
            }
            return;
        }
        if self.block.is_none() {
            let block = Block::of_line(&line, self.is_styled);
            self.pending = line;
            self.begin(block);
        } else {
            self.pending = line;
        }
        match self.block.take() {
            Some(Block::Fence(fence)) => {
                let line = std::mem::take(&mut self.pending);
                self.wrap.verbatim(&line, Style::DIM);
                self.fence = Some(fence);
            }
            Some(Block::TableRow) => self.table.push(std::mem::take(&mut self.pending)),
            Some(Block::Rule) => {
                self.pending.clear();
                self.wrap.rule();
            }
            Some(block @ (Block::Heading | Block::Text { .. })) => {
                self.block = Some(block);
                self.show_text(true);
                self.block = None;
            }
            None => {}
        }
    }

    /// Shows the table that has ended. The cursor stays behind its last row.
    fn show_table(&mut self) {
        let rows = std::mem::take(&mut self.table);
        let drawn = table::drawn(&rows, self.wrap.width());
        let as_written = || rows.iter().map(|row| vec![Span { text: row.clone(), style: Style::default() }]).collect();
        for (number, row) in drawn.unwrap_or_else(as_written).iter().enumerate() {
            if number > 0 {
                self.wrap.line_break();
            }
            row.iter().for_each(|span| self.wrap.verbatim(&span.text, span.style));
        }
    }

    /// Begins a line of a known kind: its mark is shown, and does not stay in what is pending.
    fn begin(&mut self, block: Block) {
        if !self.table.is_empty() && block != Block::TableRow {
            self.show_table();
            self.wrap.line_break();
        }
        self.before = None;
        if let Block::Text { mark, shown, further } = &block {
            self.pending.drain(..*mark);
            self.wrap.begin_line(shown, further);
        } else if block == Block::Heading {
            self.pending = self.pending.trim_start().trim_start_matches('#').trim().trim_end_matches('#').to_owned();
        }
        self.block = Some(block);
    }

    /// Shows pending text. If the line has not ended, a last word and emphasis that is not closed are kept back.
    fn show_text(&mut self, is_end: bool) {
        let base = if self.block == Some(Block::Heading) { Style::BOLD } else { Style::default() };
        let certain = if is_end { self.pending.as_str() } else { certain(&self.pending) };
        let shown = if self.is_styled {
            let (spans, shown) = inline::spans(certain, self.before, base, is_end);
            spans.iter().for_each(|span| self.wrap.text(&span.text, span.style));
            shown
        } else {
            self.wrap.text(certain, Style::default());
            certain.len()
        };
        self.before = self.pending[..shown].chars().next_back().or(self.before);
        self.pending.drain(..shown);
    }
}

/// The text without its end, of which more may come: the last letter, and the marks before it. Nothing comes to a
/// space.
fn certain(text: &str) -> &str {
    if text.ends_with(' ') {
        return text;
    }
    let last = letters(text).last().map_or(0, |(letter, _)| letter.len());
    text[..text.len() - last].trim_end_matches(inline::MARKS)
}

#[cfg(test)]
mod tests;

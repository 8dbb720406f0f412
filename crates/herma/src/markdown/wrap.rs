//! Puts words into lines of the terminal. A word that does not fit begins the next line; one that is wider than the
//! terminal is broken.

use crate::terminal::Style;
use crate::text_width::{columns, letters};

/// Words that become lines.
pub(super) struct Wrap {
    width: usize,
    is_styled: bool,
    /// What was made and not taken yet.
    out: String,
    /// The column of the cursor.
    column: usize,
    /// What further lines of this paragraph begin with: letters of one column.
    further: String,
    /// Spaces before the next word. They are dropped if that word begins a line.
    spaces: usize,
    /// The word that is not complete: pieces of it with their styles, and its columns.
    word: Vec<(String, Style)>,
    word_columns: usize,
}

impl Wrap {
    pub(super) fn new(width: usize, is_styled: bool) -> Self {
        let (out, word) = (String::new(), Vec::new());
        Self { width, is_styled, out, column: 0, further: String::new(), spaces: 0, word, word_columns: 0 }
    }

    pub(super) const fn width(&self) -> usize {
        self.width
    }

    /// Whether the cursor stands behind something.
    pub(super) const fn is_mid_line(&self) -> bool {
        self.column > 0
    }

    pub(super) fn set_width(&mut self, width: usize) {
        self.width = width;
    }

    /// What the terminal is to be sent now. A word of which more may come is kept back.
    pub(super) fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Begins a line with its mark. `further` is what its further lines begin with.
    pub(super) fn begin_line(&mut self, mark: &str, further: &str) {
        self.out.push_str(mark);
        self.column = columns(mark);
        // A narrow terminal has no room for deep indentation.
        self.further = further.chars().take(self.width / 3).collect();
    }

    /// Adds text of the line.
    pub(super) fn text(&mut self, text: &str, style: Style) {
        for (letter, width) in letters(text) {
            if letter == " " || letter == "\t" {
                self.end_word();
                self.spaces += 1;
            } else if width > 1 {
                // Scripts with wide letters have no spaces: a line may end behind each letter.
                self.end_word();
                self.add(letter, width, style);
                self.end_word();
            } else {
                self.add(letter, width, style);
            }
        }
    }

    /// Adds a line as it is.
    pub(super) fn verbatim(&mut self, line: &str, style: Style) {
        self.end_word();
        self.paint(line, style);
        self.column += columns(line);
    }

    /// Draws a line between two parts.
    pub(super) fn rule(&mut self) {
        self.verbatim(&"─".repeat(self.width.min(40)), Style::DIM);
    }

    /// Ends the line.
    pub(super) fn line_break(&mut self) {
        self.end_word();
        self.out.push('\n');
        self.further.clear();
        (self.column, self.spaces) = (0, 0);
    }

    /// Shows the word that was kept back.
    pub(super) fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let taken = std::mem::take(&mut self.word_columns);
        let spaces = std::mem::take(&mut self.spaces);
        if self.column > columns(&self.further) && self.column + spaces + taken > self.width {
            self.next_line();
        } else {
            self.out.push_str(&" ".repeat(spaces));
            self.column += spaces;
        }
        if taken <= self.width.saturating_sub(self.column) {
            word.iter().for_each(|(text, style)| self.paint(text, *style));
            self.column += taken;
            return;
        }
        for (text, style) in &word {
            for (letter, width) in letters(text) {
                if self.column + width > self.width {
                    self.next_line();
                }
                self.paint(letter, *style);
                self.column += width;
            }
        }
    }

    fn next_line(&mut self) {
        self.out.push('\n');
        self.out.push_str(&self.further);
        self.column = columns(&self.further);
    }

    fn add(&mut self, letter: &str, width: usize, style: Style) {
        self.word_columns += width;
        match self.word.last_mut() {
            Some((text, last)) if *last == style => text.push_str(letter),
            _ => self.word.push((letter.to_owned(), style)),
        }
    }

    fn paint(&mut self, text: &str, style: Style) {
        let style = if self.is_styled { style } else { Style::default() };
        self.out.push_str(&style.paint(text));
    }
}

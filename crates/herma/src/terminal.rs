//! What the terminal behind stdout and stderr can do: its width, and whether it wants colours.

use std::io::{self, IsTerminal};

/// The width if the terminal does not tell it, and the least that is used.
const WIDTH: usize = 80;
const LEAST_WIDTH: usize = 20;

/// One of the two streams that people read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    /// Whether a person reads this stream in a terminal.
    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => io::stdout().is_terminal(),
            Self::Stderr => io::stderr().is_terminal(),
        }
    }

    /// Whether the stream is a terminal that understands escape codes, and `NO_COLOR` is not set.
    pub(crate) fn has_colours(self) -> bool {
        self.is_terminal() && !is_set("NO_COLOR") && !is_dumb()
    }

    /// Columns of the terminal. `None` if the stream is no terminal.
    pub(crate) fn width(self) -> Option<usize> {
        if !self.is_terminal() {
            return None;
        }
        let size = match self {
            Self::Stdout => terminal_size::terminal_size_of(io::stdout()),
            Self::Stderr => terminal_size::terminal_size_of(io::stderr()),
        };
        let columns = size.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0);
        Some(columns.unwrap_or(WIDTH).max(LEAST_WIDTH))
    }
}

/// Whether the terminal cannot move its cursor.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// How a piece of text looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Style {
    pub(crate) bold: bool,
    pub(crate) dim: bool,
    pub(crate) italic: bool,
    pub(crate) underline: bool,
    pub(crate) struck: bool,
    pub(crate) colour: Option<Colour>,
}

/// A colour of the terminal's own palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Red,
    Green,
    Yellow,
    Cyan,
}

impl Style {
    pub(crate) const DIM: Self = Self { dim: true, ..Self::PLAIN };
    pub(crate) const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    const PLAIN: Self = Self { bold: false, dim: false, italic: false, underline: false, struck: false, colour: None };

    pub(crate) const fn colour(colour: Colour) -> Self {
        Self { colour: Some(colour), ..Self::PLAIN }
    }

    /// The text between the escape codes of this style.
    pub(crate) fn paint(self, text: &str) -> String {
        let flags = [(self.bold, "1"), (self.dim, "2"), (self.italic, "3"), (self.underline, "4"), (self.struck, "9")];
        let colour = self.colour.map(|colour| match colour {
            Colour::Red => "31",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Cyan => "36",
        });
        let codes: Vec<&str> = flags.into_iter().filter_map(|(set, code)| set.then_some(code)).chain(colour).collect();
        if codes.is_empty() || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", codes.join(";"))
    }
}

//! What kind of line it is, from how it begins.

/// How many characters of a line decide at most.
const MOST: usize = 12;

/// The kind of a line outside of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    /// Words: a paragraph, an item of a list, or a quotation.
    Text {
        /// How many bytes of the line are its mark.
        mark: usize,
        /// What is shown in place of the mark.
        shown: String,
        /// What further lines of the terminal begin with.
        further: String,
    },
    /// A heading.
    Heading,
    /// The beginning of code, with the fence that ends it.
    Fence(String),
    /// A line between two parts.
    Rule,
    /// A row of a table.
    TableRow,
}

impl Block {
    /// The kind of a line that has not ended. `None` if more of it has to come.
    pub(super) fn of_beginning(begun: &str, is_styled: bool) -> Option<Self> {
        let text = begun.trim_start();
        let first = text.chars().next()?;
        if !is_styled && first != '`' && first != '~' {
            return Some(plain(begun));
        }
        let may_be_a_mark = first.is_ascii_digit() || "#>-*+`~|_".contains(first);
        let is_decided = !may_be_a_mark || text.contains(' ') || text.chars().count() > MOST;
        if !is_decided || "`~|".contains(first) && !is_inline_code(text) || may_be_rule(text) {
            return None;
        }
        Some(Self::of_line(begun, is_styled)).filter(Self::is_shown_word_by_word)
    }

    /// The kind of a whole line.
    pub(super) fn of_line(line: &str, is_styled: bool) -> Self {
        let text = line.trim_start();
        if let Some(fence) = fence(text) {
            return Self::Fence(fence);
        }
        if !is_styled {
            return plain(line);
        }
        let hashes = text.bytes().take_while(|byte| *byte == b'#').count();
        if (1..=6).contains(&hashes) && text[hashes..].starts_with(' ') {
            return Self::Heading;
        }
        if is_rule(text) {
            return Self::Rule;
        }
        if text.starts_with('|') {
            return Self::TableRow;
        }
        listed(line).or_else(|| quoted(line)).unwrap_or_else(|| plain(line))
    }

    /// Whether words of it can be shown before the line has ended.
    pub(super) fn is_shown_word_by_word(&self) -> bool {
        matches!(self, Self::Text { .. })
    }
}

/// Whether a line ends the code that this fence began.
pub(super) fn closes(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.starts_with(fence) && line.chars().all(|c| fence.starts_with(c))
}

fn fence(text: &str) -> Option<String> {
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.chars().take_while(|c| *c == mark).count();
    // Backticks behind the fence would make it code in a line.
    let is_fence = length >= 3 && !(mark == '`' && text[length..].contains('`'));
    is_fence.then(|| mark.to_string().repeat(length))
}

/// Whether a line that begins with a backtick or a tilde is not going to be a fence.
fn is_inline_code(text: &str) -> bool {
    let mark = text.chars().next().unwrap_or_default();
    let length = text.chars().take_while(|c| *c == mark).count();
    mark != '|' && length < 3 && length < text.len()
}

fn is_rule(text: &str) -> bool {
    may_be_rule(text) && text.chars().filter(|c| *c != ' ').count() >= 3
}

/// Whether the line has had nothing but the letters of a rule.
fn may_be_rule(text: &str) -> bool {
    let mark = text.chars().next().filter(|c| "-*_".contains(*c));
    mark.is_some_and(|mark| text.chars().all(|c| c == mark || c == ' '))
}

/// An item of a list: `- `, `* `, `+ `, or a number.
fn listed(line: &str) -> Option<Block> {
    let text = line.trim_start();
    let lead = line.len() - text.len();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (mark, shown) = match digits {
        0 if text.starts_with(['-', '*', '+']) => (1, "•".to_owned()),
        1..=4 if text[digits..].starts_with(['.', ')']) => (digits + 1, text[..=digits].to_owned()),
        _ => return None,
    };
    text[mark..].starts_with(' ').then(|| {
        let shown = format!("{}{shown} ", " ".repeat(lead));
        let further = " ".repeat(shown.chars().count());
        Block::Text { mark: lead + mark + 1, shown, further }
    })
}

fn quoted(line: &str) -> Option<Block> {
    let text = line.trim_start();
    let rest = text.strip_prefix('>')?;
    let mark = line.len() - rest.strip_prefix(' ').unwrap_or(rest).len();
    Some(Block::Text { mark, shown: "│ ".to_owned(), further: "│ ".to_owned() })
}

/// Words without a mark. Their indentation stays.
fn plain(line: &str) -> Block {
    let mark = line.len() - line.trim_start_matches(' ').len();
    Block::Text { mark, shown: " ".repeat(mark), further: " ".repeat(mark) }
}

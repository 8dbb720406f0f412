//! Shows that an answer is awaited: a turning sign, the time, and the size of what the model reads.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crate::terminal::{self, Stream};
use crate::text_width::shortened;

/// How often it turns.
pub(super) const TURN_EVERY: Duration = Duration::from_millis(100);
/// How long an answer is awaited silently.
const PATIENCE: Duration = Duration::from_millis(300);

const SIGNS: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// A sign in the line of the cursor, on stderr.
pub(super) struct Spinner {
    is_wanted: bool,
    began: Instant,
    /// About how many tokens the model reads.
    tokens: u64,
    is_shown: bool,
}

impl Spinner {
    /// Waits for an answer. Nothing is shown where stderr is no terminal.
    pub(super) fn new(tokens: u64) -> Self {
        let is_wanted = Stream::Stderr.is_terminal() && !terminal::is_dumb();
        Self { is_wanted, began: Instant::now(), tokens, is_shown: false }
    }

    /// Draws it. Other text must not stand in the line.
    pub(super) fn turn(&mut self) {
        let waited = self.began.elapsed();
        if !self.is_wanted || waited < PATIENCE {
            return;
        }
        let at = usize::try_from(waited.as_millis() / TURN_EVERY.as_millis()).unwrap_or_default();
        let sign = SIGNS[at % SIGNS.len()];
        let line = format!("{sign} {} s, the model reads about {} tokens", waited.as_secs(), grouped(self.tokens));
        // Only the line of the cursor can be cleared, so the text must not need a second one.
        let line = shortened(&line, Stream::Stderr.width().map_or(usize::MAX, |width| width - 1));
        send(&format!("\r\u{1b}[K{line}"));
        self.is_shown = true;
    }

    /// Takes it away, so that other text can be shown.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            send("\r\u{1b}[K");
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.clear();
    }
}

fn send(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// A number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_in_groups_of_three() {
        for (number, shown) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), shown);
        }
    }
}

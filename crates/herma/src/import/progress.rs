//! How far an import is: a bar on a terminal, else a line now and then.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::output;

/// How many characters the bar has.
const WIDTH: u64 = 30;
/// How often the bar is drawn, and how often a line is written where there is no terminal.
const REDRAW: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(5);

/// Progress of a known number of messages.
pub(super) struct Progress {
    is_terminal: bool,
    total: u64,
    done: u64,
    last: Instant,
}

impl Progress {
    /// At the beginning.
    pub(super) fn new(total: u64) -> Self {
        Self { is_terminal: io::stderr().is_terminal(), total, done: 0, last: Instant::now() }
    }

    /// So many messages more are done.
    pub(super) fn advance(&mut self, messages: u64) {
        self.done += messages;
        let pause = if self.is_terminal { REDRAW } else { LINE };
        if self.last.elapsed() < pause {
            return;
        }
        self.last = Instant::now();
        let line = line(self.done, self.total);
        if self.is_terminal {
            let _ = write!(io::stderr().lock(), "\r{} {line}", bar(self.done, self.total));
        } else {
            output::note(&line);
        }
    }

    /// Takes the bar away.
    pub(super) fn end(self) {
        if self.is_terminal {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}

/// Hermes may write more while it is read, so that more than all can be done.
fn line(done: u64, total: u64) -> String {
    format!("{done} of {} messages", total.max(done))
}

fn bar(done: u64, total: u64) -> String {
    let filled = (done.min(total) * WIDTH).checked_div(total).unwrap_or(WIDTH);
    let part = |letter: &str, length: u64| letter.repeat(usize::try_from(length).unwrap_or_default());
    format!("[{}{}]", part("#", filled), part(" ", WIDTH - filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_up_and_never_runs_over() {
        assert_eq!(bar(0, 10), format!("[{}]", " ".repeat(30)));
        assert_eq!(bar(5, 10), format!("[{}{}]", "#".repeat(15), " ".repeat(15)));
        assert_eq!(bar(12, 10), format!("[{}]", "#".repeat(30)));
        assert_eq!(bar(0, 0), format!("[{}]", "#".repeat(30)));
        assert_eq!(line(12, 10), "12 of 12 messages");
    }
}

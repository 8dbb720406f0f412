//! Shows the progress of long work: on a terminal a bar, or a count if the total is unknown; else a line now and then.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::output;

/// How many characters the bar has.
const WIDTH: u64 = 30;
/// How often the bar is drawn; without a terminal, how often a line is written.
const REDRAW: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(5);

/// The progress of a number of things.
pub(crate) struct Progress {
    is_terminal: bool,
    what: &'static str,
    /// How many there are. `None` if that is unknown.
    total: Option<u64>,
    done: u64,
    last: Instant,
}

impl Progress {
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        Self { is_terminal: io::stderr().is_terminal(), what, total, done: 0, last: Instant::now() }
    }

    /// Counts more things as done, and draws the bar if it is time.
    pub(crate) fn advance(&mut self, more: u64) {
        self.done += more;
        let pause = if self.is_terminal { REDRAW } else { LINE };
        if self.last.elapsed() < pause {
            return;
        }
        self.last = Instant::now();
        let line = line(self.done, self.total, self.what);
        if self.is_terminal {
            let bar = self.total.map(|total| format!("{} ", bar(self.done, total))).unwrap_or_default();
            let _ = write!(io::stderr().lock(), "\r{bar}{line}");
        } else {
            output::note(&line);
        }
    }

    /// Removes the bar.
    pub(crate) fn end(self) {
        if self.is_terminal {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
        }
    }
}

/// `done` can exceed `total`, because rows may be added while they are read.
fn line(done: u64, total: Option<u64>, what: &str) -> String {
    match total {
        Some(total) => format!("{done} of {} {what}", total.max(done)),
        None => format!("{done} {what}"),
    }
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
        assert_eq!(line(12, Some(10), "messages"), "12 of 12 messages");
        assert_eq!(line(12, None, "conversations"), "12 conversations");
    }
}

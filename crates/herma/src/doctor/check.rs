//! The result of a check.

use serde::Serialize;

use crate::terminal::{Colour, Stream, Style};
use crate::text_width::{columns, padded, wrapped};

/// The least columns for what was found.
const LEAST: usize = 30;

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// Nothing to do.
    Ok,
    /// It works, but something should be done.
    Warning,
    /// It does not work.
    Problem,
}

/// One check with its result.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) status: Status,
    check: &'static str,
    found: String,
}

impl Check {
    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { status: Status::Ok, check, found: found.into() }
    }

    pub(super) fn warning(check: &'static str, found: impl Into<String>) -> Self {
        Self { status: Status::Warning, check, found: found.into() }
    }

    pub(super) fn problem(check: &'static str, found: impl Into<String>) -> Self {
        Self { status: Status::Problem, check, found: found.into() }
    }

    fn status(&self) -> (&'static str, Colour) {
        match self.status {
            Status::Ok => ("ok", Colour::Green),
            Status::Warning => ("warning", Colour::Yellow),
            Status::Problem => ("problem", Colour::Red),
        }
    }
}

/// One check below the other. In a terminal, what was found is wrapped beside its name.
pub(super) fn layout(checks: &[Check]) -> String {
    let statuses = checks.iter().map(|check| columns(check.status().0)).max().unwrap_or(0);
    let names = checks.iter().map(|check| columns(check.check)).max().unwrap_or(0);
    let left = statuses + names + 4;
    let has_colours = Stream::Stdout.has_colours();
    let mut lines = Vec::new();
    for check in checks {
        let (status, colour) = check.status();
        let padded_status = padded(status, statuses);
        let status = if has_colours { Style::colour(colour).paint(&padded_status) } else { padded_status };
        let found = match Stream::Stdout.width() {
            Some(width) => wrapped(&check.found, width.saturating_sub(left).max(LEAST)),
            None => vec![check.found.clone()],
        };
        for (number, found) in found.iter().enumerate() {
            lines.push(match number {
                0 => format!("{status}  {}  {found}", padded(check.check, names)),
                _ => format!("{}{found}", " ".repeat(left)),
            });
        }
    }
    lines.join("\n")
}

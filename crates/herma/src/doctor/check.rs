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

/// One check below the other. In a terminal, what was found is wrapped beside its name, or below it if that is narrow.
pub(super) fn layout(checks: &[Check]) -> String {
    let statuses = checks.iter().map(|check| columns(check.status().0)).max().unwrap_or(0);
    let names = checks.iter().map(|check| columns(check.check)).max().unwrap_or(0);
    let width = Stream::Stdout.width();
    let beside = statuses + names + 4;
    let is_below = width.is_some_and(|width| width < beside + LEAST);
    let left = if is_below { statuses + 2 } else { beside };
    let has_colours = Stream::Stdout.has_colours();
    let mut lines = Vec::new();
    for check in checks {
        let (status, colour) = check.status();
        let padded_status = padded(status, statuses);
        let status = if has_colours { Style::colour(colour).paint(&padded_status) } else { padded_status };
        let found = match width {
            Some(width) => wrapped(&check.found, width.saturating_sub(left)),
            None => vec![check.found.clone()],
        };
        let mut first = format!("{status}  {}", padded(check.check, names));
        if is_below {
            lines.push(first.trim_end().to_owned());
            first = " ".repeat(left);
        } else {
            first.push_str("  ");
        }
        let indents = std::iter::once(first).chain(std::iter::repeat(" ".repeat(left)));
        lines.extend(indents.zip(found).map(|(indent, found)| format!("{indent}{found}")));
    }
    lines.join("\n")
}

//! The result of a check.

use serde::Serialize;

use crate::terminal::{Colour, Stream, Style};

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

/// The lines of a table of checks, with the status in its colour where the terminal wants it.
pub(super) fn coloured(table: &str) -> String {
    if !Stream::Stdout.has_colours() {
        return table.to_owned();
    }
    let colours = [("ok ", Colour::Green), ("warning ", Colour::Yellow), ("problem ", Colour::Red)];
    let line = |line: &str| match colours.iter().find(|(status, _)| line.starts_with(status)) {
        Some((status, colour)) => format!("{}{}", Style::colour(*colour).paint(status), &line[status.len()..]),
        None => line.to_owned(),
    };
    table.lines().map(line).collect::<Vec<_>>().join("\n")
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

    /// The check as a row of a table.
    pub(super) fn row(&self) -> [String; 3] {
        let status = match self.status {
            Status::Ok => "ok",
            Status::Warning => "warning",
            Status::Problem => "problem",
        };
        [status.to_owned(), self.check.to_owned(), self.found.clone()]
    }
}

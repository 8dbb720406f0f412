//! The report of an import from Hermes.

use std::fmt;

use herma_store::{Arrival, Fate, Leaving};
use serde::Serialize;

use crate::output;

/// The most problems that are printed for people.
const MAX_SHOWN: usize = 20;

/// Something that could not be imported unchanged, or that the user should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Problem {
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<i64>,
    problem: String,
}

impl Problem {
    /// About a row of a session.
    pub(super) fn row(session: &str, row: i64, problem: impl Into<String>) -> Self {
        Self { session: Some(session.to_owned()), row: Some(row), problem: problem.into() }
    }

    /// About a session.
    pub(super) fn session(session: &str, problem: impl Into<String>) -> Self {
        Self { session: Some(session.to_owned()), row: None, problem: problem.into() }
    }

    /// About something else.
    pub(super) fn other(problem: impl Into<String>) -> Self {
        Self { session: None, row: None, problem: problem.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(session) = &self.session {
            write!(f, "session {session}")?;
            self.row.map_or(Ok(()), |row| write!(f, ", row {row}"))?;
            f.write_str(": ")?;
        }
        f.write_str(&self.problem)
    }
}

/// How many conversations had each outcome.
#[derive(Debug, Default, Serialize)]
struct ImportCounts {
    made: u64,
    extended: u64,
    replaced: u64,
    unchanged: u64,
    left: u64,
}

/// The report of an import.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    object: &'static str,
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<i64>,
    sessions: u64,
    conversations: ImportCounts,
    messages: u64,
    taken_back: u64,
    problems: Vec<Problem>,
}

impl Report {
    /// The report of an import that has not begun.
    pub(super) fn new(file: String, schema: Option<i64>, sessions: usize) -> Self {
        Self {
            object: "import",
            file,
            schema,
            sessions: sessions as u64,
            conversations: ImportCounts::default(),
            messages: 0,
            taken_back: 0,
            problems: Vec::new(),
        }
    }

    /// Adds problems.
    pub(super) fn add_problems(&mut self, problems: impl IntoIterator<Item = Problem>) {
        self.problems.extend(problems);
    }

    /// Counts rows that were taken back in Hermes.
    pub(super) fn count_taken_back(&mut self, rows: u64) {
        self.taken_back += rows;
    }

    /// Counts the outcome of a conversation with this first session and number of messages.
    pub(super) fn count(&mut self, first: &str, messages: u64, arrival: &Arrival) {
        let counts = &mut self.conversations;
        match &arrival.fate {
            Fate::Made => {
                counts.made += 1;
                self.messages += messages;
            }
            Fate::Extended(added) => {
                counts.extended += 1;
                self.messages += added;
            }
            Fate::Replaced => {
                counts.replaced += 1;
                self.messages += messages;
            }
            Fate::Unchanged => counts.unchanged += 1,
            Fate::Left(why) => {
                counts.left += 1;
                self.problems.push(Problem::session(first, left(why)));
            }
        }
        let taken = |name| Problem::session(first, format!("the name {name} leads to another conversation already"));
        self.problems.extend(arrival.names_taken.iter().map(taken));
    }

    /// How many conversations have an outcome.
    pub(super) fn conversations(&self) -> u64 {
        let ImportCounts { made, extended, replaced, unchanged, left } = self.conversations;
        made + extended + replaced + unchanged + left
    }

    /// Prints the report: for people the sums on stdout and the problems on stderr, for programs one JSON object.
    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            return Ok(output::answer(&serde_json::to_string(self)?)?);
        }
        for problem in self.problems.iter().take(MAX_SHOWN) {
            output::note(&output::printable(&problem.to_string()));
        }
        if self.problems.len() > MAX_SHOWN {
            output::note(&format!("… and {} more; --json has them all", self.problems.len() - MAX_SHOWN));
        }
        Ok(output::answer(&self.to_string())?)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ImportCounts { made, extended, replaced, unchanged, left } = self.conversations;
        write!(f, "{} sessions are {} conversations: ", self.sessions, self.conversations())?;
        write!(
            f,
            "{made} new, {extended} went on, {replaced} brought anew, {unchanged} as before, {left} left alone; "
        )?;
        write!(f, "{} messages brought", self.messages)?;
        if self.taken_back > 0 {
            write!(f, ", {} taken back in Hermes left out", self.taken_back)?;
        }
        Ok(())
    }
}

fn left(why: &Leaving) -> String {
    match why {
        Leaving::Taken(id) => format!(
            "left out: {id} leads to a conversation that was not imported from this file; delete that one to import \
             this"
        ),
        Leaving::Touched => {
            "left as it is: it has gone on in Herma since it was imported, and in Hermes too".to_owned()
        }
        Leaving::Inherited => {
            "left as it is: what was taken back in Hermes is part of a branch that was made in Herma".to_owned()
        }
        Leaving::Rearranged => {
            "left as it is: sessions that were imported before are missing in Hermes, or belong to others now"
                .to_owned()
        }
    }
}

//! The report of an import, for people and for programs.

use std::fmt;

use herma_model::ConversationId;
use herma_store::RestoreOutcome;
use herma_wire::export::Damage;
use serde::Serialize;

use crate::output;

/// The most problems that are printed for people.
const MAX_SHOWN: usize = 20;

/// A conversation that was not restored, or a damaged file.
#[derive(Debug, Serialize)]
struct Problem {
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_id: Option<ConversationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.conversation_id, self.line) {
            (Some(id), Some(line)) => write!(f, "{id} (line {line}): {}", self.problem),
            _ => f.write_str(&self.problem),
        }
    }
}

/// How many conversations had each outcome.
#[derive(Debug, Default, Serialize)]
struct RestoreCounts {
    made: u64,
    already_here: u64,
    left: u64,
    refused: u64,
}

/// The report of an import.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    object: &'static str,
    file: String,
    dry_run: bool,
    complete: bool,
    conversations: RestoreCounts,
    messages: u64,
    problems: Vec<Problem>,
}

impl Report {
    /// The report of an import that has not begun.
    pub(super) fn new(file: String, dry_run: bool) -> Self {
        Self {
            object: "sessions.import",
            file,
            dry_run,
            complete: true,
            conversations: RestoreCounts::default(),
            messages: 0,
            problems: Vec::new(),
        }
    }

    /// Counts the outcome of a conversation that begins at a line of the file.
    pub(super) fn count(&mut self, id: ConversationId, line: u64, messages: u64, outcome: RestoreOutcome) {
        let counts = &mut self.conversations;
        let refusal = match outcome {
            RestoreOutcome::Made => {
                counts.made += 1;
                self.messages += messages;
                return;
            }
            RestoreOutcome::AlreadyHere => {
                counts.already_here += 1;
                return;
            }
            RestoreOutcome::Differs => {
                counts.left += 1;
                let problem = "left as it is: it is here, and has changed here or there since".to_owned();
                return self.add_problem(id, line, problem);
            }
            RestoreOutcome::Taken(name) => {
                format!("{name} is another conversation's here; delete that one to bring this back")
            }
            RestoreOutcome::NoSource(source) => {
                format!("it is a branch of {source}, which is neither here nor before it in the file")
            }
            RestoreOutcome::OtherSource(source) => {
                format!("it is a branch of {source}, and what it inherits of it is not the same here")
            }
            RestoreOutcome::Broken(what) => format!("its lines do not fit together: {what}"),
        };
        counts.refused += 1;
        self.add_problem(id, line, format!("refused: {refusal}"));
    }

    fn add_problem(&mut self, id: ConversationId, line: u64, problem: String) {
        self.problems.push(Problem { conversation_id: Some(id), line: Some(line), problem });
    }

    /// Notes that the file could not be read to its end.
    pub(super) fn damaged(&mut self, damage: &Damage) {
        self.complete = false;
        let line = match damage {
            Damage::Line { line, .. } | Damage::CutOff(line) => Some(*line),
            Damage::Foreign | Damage::Newer(_) => None,
        };
        let problem = format!(
            "{} is damaged: {damage}; what came before was imported, and nothing of what did not come whole",
            self.file
        );
        self.problems.push(Problem { conversation_id: None, line, problem });
    }

    /// Whether the whole file was read and no conversation was refused.
    pub(super) fn is_whole(&self) -> bool {
        self.complete && self.conversations.refused == 0
    }

    /// Prints the report: for people the sums on stdout and the problems on stderr, for programs one JSON object.
    pub(super) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            return Ok(output::answer(&serde_json::to_string(self)?)?);
        }
        // The last problem is always printed: it may be the one that stopped the import.
        let shown = self.problems.iter().take(MAX_SHOWN);
        let last = self.problems.last().filter(|_| self.problems.len() > MAX_SHOWN);
        for problem in shown.chain(last) {
            output::note(&output::printable(&problem.to_string()));
        }
        if last.is_some() {
            output::note(&format!("… and {} more; --json has them all", self.problems.len() - MAX_SHOWN - 1));
        }
        Ok(output::answer(&self.to_string())?)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RestoreCounts { made, already_here, left, refused } = self.conversations;
        let would = if self.dry_run { "nothing was changed; it would be: " } else { "" };
        write!(
            f,
            "{would}{} conversations: {made} brought back, {already_here} already here",
            made + already_here + left + refused
        )?;
        write!(f, ", {left} left as they are, {refused} refused; {} messages", self.messages)
    }
}

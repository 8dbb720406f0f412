//! The rows of a chain of sessions as what was said, once, and where it was compacted.
//!
//! When Hermes compacts, it writes what the model is shown from then on as new rows, in the same session or in the next one: copies of the
//! first messages, the summary, copies of the last ones. Copies are recognised by what they say and left out; which messages they stand for
//! becomes the compaction's range and what it carries.

use std::sync::Arc;

use herma_model::compaction::Sizes;
use herma_model::provenance::CompactionMode;
use herma_model::{CallId, Digest, FinishReason, Role, SessionId, Timestamp, Utterance};
use herma_store::{ImportedCompaction, ImportedEntry, ImportedMessage, ImportedSession};
use herma_store_sqlite::hermes::{HermesMessage, HermesSession};
use herma_turn::summary;

use super::message::{self, Reading};

/// Most copies of first messages that are looked for before a summary.
const MOST_HEAD_COPIES: usize = 64;

/// A row that is not brought, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) session: String,
    pub(super) row: i64,
    pub(super) why: String,
}

/// A chain of sessions, read.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    pub(super) sessions: Vec<ImportedSession>,
    pub(super) skipped: Vec<Skipped>,
    /// Rows that were taken back in Hermes.
    pub(super) taken_back: u64,
    /// Sessions that are continuations without a summary.
    pub(super) without_summary: Vec<String>,
    /// When anything was last said.
    pub(super) last_said: Option<Timestamp>,
}

/// A row that can be read.
struct Line {
    row: i64,
    /// Whether Hermes showed it to the model.
    shown: bool,
    at: Timestamp,
    finish: FinishReason,
    what: What,
}

enum What {
    Said(Utterance),
    Summary(String),
}

/// What a message is compared by. The results of tools are shortened when they are copied, so their calls count.
#[derive(PartialEq, Eq, Clone)]
enum Mark {
    Says(Digest),
    Answers(CallId),
}

impl Mark {
    fn of(said: &Utterance) -> Self {
        match (said.role, said.calls.first()) {
            (Role::Tool, Some(call)) => Self::Answers(Arc::clone(call)),
            _ => Self::Says(said.digest),
        }
    }
}

/// Something that was said, as far as later rows are compared with it.
struct Known {
    row: i64,
    shown: bool,
    mark: Mark,
    role: Role,
    calls: Arc<[CallId]>,
    tokens: u64,
}

/// Reads the sessions of a conversation, from the first to the head.
pub(super) fn read(chain: &[(HermesSession, Vec<HermesMessage>)]) -> Transcript {
    let mut reader = Reader::default();
    for (at, (session, rows)) in chain.iter().enumerate() {
        let began = moment(session.started_at).unwrap_or(Timestamp(0));
        let next = chain.get(at + 1).and_then(|(next, _)| moment(next.started_at));
        reader.session = session.id.clone();
        reader.entries = Vec::new();
        let lines = reader.lines(rows, began);
        reader.session_of(lines, at > 0);
        reader.read.sessions.push(ImportedSession {
            origin: Arc::from(&*session.id),
            id: SessionId::from_name(&session.id),
            created_at: began,
            ended_at: moment(session.ended_at).or(next).unwrap_or(began),
            entries: std::mem::take(&mut reader.entries),
        });
    }
    reader.read
}

/// Seconds as a moment.
fn moment(seconds: Option<f64>) -> Option<Timestamp> {
    seconds.filter(|seconds| seconds.is_finite()).map(|seconds| Timestamp((seconds * 1000.0).round() as i64))
}

#[derive(Default)]
struct Reader {
    read: Transcript,
    session: String,
    entries: Vec<ImportedEntry>,
    known: Vec<Known>,
    /// Calls of the last answer that have no result yet.
    open: Vec<CallId>,
    /// The first row of the turn that is going on, and whether it has begun to answer.
    turn: Option<(i64, bool)>,
    /// How many of the known messages the last summary stands for, and what it and what it carries cost.
    base: (usize, u64),
}

impl Reader {
    /// The rows that count, as far as they can be read.
    fn lines(&mut self, rows: &[HermesMessage], began: Timestamp) -> Vec<Line> {
        let mut lines = Vec::with_capacity(rows.len());
        for row in rows {
            if !row.active && !row.compacted {
                self.read.taken_back += 1;
                continue;
            }
            let what = match message::read(row) {
                Reading::Said(said) => What::Said(said),
                Reading::Summary(text) => What::Summary(text),
                Reading::Unreadable(why) => {
                    self.skip(row.row, why);
                    continue;
                }
            };
            let at = moment(row.timestamp).unwrap_or(began);
            self.read.last_said = self.read.last_said.max(Some(at));
            let finish = row.finish_reason.as_deref().map_or(FinishReason::Stop, FinishReason::from_wire);
            lines.push(Line { row: row.row, shown: row.active, at, finish, what });
        }
        lines
    }

    fn skip(&mut self, row: i64, why: String) {
        self.read.skipped.push(Skipped { session: self.session.clone(), row, why });
    }

    /// Goes through a session, from summary to summary.
    fn session_of(&mut self, lines: Vec<Line>, is_continuation: bool) {
        self.end_answer();
        if is_continuation && !lines.iter().any(|line| matches!(line.what, What::Summary(_))) {
            self.read.without_summary.push(self.session.clone());
        }
        let mut mode = if is_continuation { CompactionMode::Split } else { CompactionMode::InPlace };
        // Copies of what was said last stand where a session goes on from another, and after a summary.
        let mut copies = is_continuation;
        let mut parts = parts(lines).into_iter().peekable();
        while let Some(Part { mut lines, summary }) = parts.next() {
            let head = summary.as_ref().map_or(0, |_| self.copies_of_the_beginning(&lines));
            lines.truncate(lines.len() - head);
            let from = self.known.len();
            let known = if copies { self.copies_of_the_end(&lines) } else { 0 };
            lines.into_iter().skip(known).for_each(|line| self.say(line));
            if let Some(summary) = summary {
                let kept = parts.peek().map_or(0, |next| self.copies_of_the_end(&next.lines));
                self.compact(Compacting { summary, mode, head, from, kept });
                (mode, copies) = (CompactionMode::InPlace, true);
            }
        }
    }

    /// How many lines at the beginning are what was said last.
    fn copies_of_the_end(&self, lines: &[Line]) -> usize {
        let marks: Vec<Option<Mark>> = lines.iter().map(Line::mark).collect();
        let most = marks.len().min(self.known.len());
        let same = |count: &usize| {
            let end = &self.known[self.known.len() - count..];
            marks[..*count].iter().zip(end).all(|(mark, known)| mark.as_ref() == Some(&known.mark))
        };
        (1..=most).rev().find(same).unwrap_or(0)
    }

    /// How many lines at the end are what was said first.
    fn copies_of_the_beginning(&self, lines: &[Line]) -> usize {
        let marks: Vec<Option<Mark>> = lines.iter().map(Line::mark).collect();
        let whole = self.known.len() + marks.len();
        let at = |place: usize| match self.known.get(place) {
            Some(known) => Some(known.mark.clone()),
            None => marks.get(place - self.known.len()).cloned().flatten(),
        };
        let most = marks.len().min(whole / 2).min(MOST_HEAD_COPIES);
        let same = |count: &usize| (0..*count).all(|place| at(place) == marks[marks.len() - count + place]);
        (1..=most).rev().find(same).unwrap_or(0)
    }

    /// One message, unless it is the result of a call that nobody made.
    fn say(&mut self, line: Line) {
        let Line { row, shown, at, finish, what: What::Said(said) } = line else { return };
        match said.role {
            Role::User => self.open.clear(),
            Role::Assistant => self.open = said.calls.to_vec(),
            Role::Tool => {
                let call = said.calls.first().and_then(|call| self.open.iter().position(|open| open == call));
                let Some(call) = call else {
                    let id = said.calls.first().map_or_else(String::new, ToString::to_string);
                    return self.skip(row, format!("it answers the call {id}, which is not open there"));
                };
                self.open.remove(call);
            }
        }
        let is_answer = said.role != Role::User;
        let turn = match self.turn {
            Some((first, false)) => first,
            Some((first, true)) if is_answer => first,
            _ => row,
        };
        self.turn = Some((turn, is_answer));
        self.known.push(Known {
            row,
            shown,
            mark: Mark::of(&said),
            role: said.role,
            calls: Arc::clone(&said.calls),
            tokens: said.tokens.into(),
        });
        let asks = said.role == Role::Tool || (is_answer && !said.calls.is_empty());
        let finish = if asks { FinishReason::ToolCalls } else { finish };
        self.entries.push(ImportedEntry::Said(ImportedMessage { origin: row, turn, said, finish, created_at: at }));
    }

    /// A turn that has begun to answer does not go on beyond this.
    fn end_answer(&mut self) {
        self.turn = self.turn.filter(|(_, answers)| !answers);
    }

    fn compact(&mut self, compacting: Compacting) {
        let Compacting { summary: (row, at, text), mode, head, from, kept } = compacting;
        self.end_answer();
        let mut through = self.known.len() - kept;
        // A result stays with its call.
        while self.known.get(through).is_some_and(|first| first.role == Role::Tool) {
            through += 1;
        }
        let still_shown = self.known[from.min(through)..through].iter().filter(|known| known.shown);
        let carried = whole_pairs(self.known[..head.min(through)].iter().chain(still_shown).collect());
        let cost = |known: &[Known]| known.iter().map(|known| known.tokens).sum::<u64>();
        let summary = summary::utterance(&text);
        let base = u64::from(summary.tokens) + carried.iter().map(|known| known.tokens).sum::<u64>();
        let sizes = Sizes {
            before: self.base.1 + cost(&self.known[self.base.0..]),
            after: base + cost(&self.known[through..]),
        };
        let carried = carried.iter().map(|known| known.row).collect();
        let last = through.checked_sub(1).map(|last| self.known[last].row);
        self.base = (through.max(self.base.0), base);
        self.entries.push(ImportedEntry::Compacted(ImportedCompaction {
            origin: row,
            mode,
            through: last,
            carried,
            summary,
            sizes,
            created_at: at,
        }));
    }
}

/// A summary and the copies around it.
struct Compacting {
    summary: SummaryLine,
    mode: CompactionMode,
    /// How many first messages are copied before it.
    head: usize,
    /// What was said from here on stands before it in the same session; where Hermes still shows it, it is kept.
    from: usize,
    /// How many last ones are copied after it.
    kept: usize,
}

impl Line {
    fn mark(&self) -> Option<Mark> {
        match &self.what {
            What::Said(said) => Some(Mark::of(said)),
            What::Summary(_) => None,
        }
    }
}

/// The row, the time and the text of a summary.
type SummaryLine = (i64, Timestamp, String);

/// Lines up to a summary or to the end.
struct Part {
    lines: Vec<Line>,
    summary: Option<SummaryLine>,
}

/// Cuts a session after its summaries. Those that follow each other are one.
fn parts(lines: Vec<Line>) -> Vec<Part> {
    let mut parts = vec![Part { lines: Vec::new(), summary: None }];
    for line in lines {
        let Some(part) = parts.last_mut() else { break };
        match (line.what, &mut part.summary) {
            (What::Summary(text), Some((_, _, before))) => *before = format!("{before}\n\n{text}"),
            (What::Summary(text), summary) => *summary = Some((line.row, line.at, text)),
            (what, None) => part.lines.push(Line { what, ..line }),
            (what, Some(_)) => parts.push(Part { lines: vec![Line { what, ..line }], summary: None }),
        }
    }
    parts
}

/// Of messages, as many from the beginning as leave no call without its result.
fn whole_pairs(mut known: Vec<&Known>) -> Vec<&Known> {
    let is_whole = |known: &[&Known]| {
        let answered = |call: &CallId| known.iter().any(|other| other.mark == Mark::Answers(Arc::clone(call)));
        let asking = known.iter().filter(|known| known.role == Role::Assistant);
        asking.flat_map(|known| known.calls.iter()).all(answered)
    };
    while !is_whole(&known) {
        known.pop();
    }
    known
}

#[cfg(test)]
mod tests;

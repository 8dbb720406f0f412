//! Turns the rows of a chain of sessions into messages, each once, and compactions.
//!
//! When Hermes compacts, it writes the model's new context as new rows, in the same session or in the next one. These
//! are copies of the first messages, the summary, and copies of the last messages. `copies` recognises the copies, and
//! they are not imported. The copied messages determine the compaction's range and what it carries. `order` assigns the
//! rows to sessions, in the order in which they were written.

mod copies;
mod order;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use herma_model::compaction::Sizes;
use herma_model::provenance::CompactionMode;
use herma_model::{CallId, FinishReason, Role, SessionId, Timestamp, Utterance};
use herma_store::{ImportedCompaction, ImportedEntry, ImportedMessage, ImportedSession};
use herma_store_sqlite::hermes::{HermesMessage, HermesSession};
use herma_turn::summary;
use herma_wire::chat;

use self::copies::Fingerprint;
use self::order::PlacedRow;
use super::message::{self, Reading};

/// The most copies of first messages that are searched for before a summary.
const MAX_HEAD_COPIES: usize = 64;

/// A row that is not imported, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) session: String,
    pub(super) row: i64,
    pub(super) why: String,
}

/// What was read from a chain of sessions.
#[derive(Debug, Default)]
pub(super) struct ImportedTranscript {
    pub(super) sessions: Vec<ImportedSession>,
    pub(super) skipped: Vec<Skipped>,
    /// Rows that were taken back in Hermes.
    pub(super) taken_back: u64,
    /// Continuations that have no summary.
    pub(super) without_summary: Vec<String>,
    /// The time of the last message or summary.
    pub(super) last_said: Option<Timestamp>,
}

/// A readable row, or one part of it if a summary was joined to a message.
struct TranscriptLine {
    session: Arc<str>,
    row: i64,
    /// Whether Hermes still shows it to the model. False for rows that were moved to a later session.
    shown: bool,
    at: Timestamp,
    /// The same time in seconds, exactly as Hermes stores it.
    time: Option<f64>,
    finish: FinishReason,
    content: RowContent,
}

enum RowContent {
    Said(Utterance),
    Summary(String),
}

/// What later compactions need to know about an imported message.
struct KnownMessage {
    row: i64,
    shown: bool,
    role: Role,
    calls: Arc<[CallId]>,
    tokens: u64,
}

/// Reads the sessions of a conversation, from the first to the head.
pub(super) fn read(chain: &[(HermesSession, Vec<HermesMessage>)]) -> ImportedTranscript {
    let mut reader = TranscriptReader::default();
    for (at, ((session, _), rows)) in chain.iter().zip(order::assign(chain)).enumerate() {
        let began = moment(session.started_at).unwrap_or(Timestamp(0));
        let next = chain.get(at + 1).and_then(|(next, _)| moment(next.started_at));
        reader.entries = Vec::new();
        let lines = reader.lines(&rows, began);
        reader.session_of(&session.id, lines, at > 0);
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

/// Converts Hermes' seconds.
fn moment(seconds: Option<f64>) -> Option<Timestamp> {
    seconds.filter(|seconds| seconds.is_finite()).map(|seconds| Timestamp((seconds * 1000.0).round() as i64))
}

#[derive(Default)]
struct TranscriptReader {
    read: ImportedTranscript,
    entries: Vec<ImportedEntry>,
    known: Vec<KnownMessage>,
    /// What known messages are compared by, at the same indices as `known`.
    fingerprints: Vec<Fingerprint>,
    /// The index of the known message with this role and time.
    moments: HashMap<(Role, u64), usize>,
    /// Tool calls of the last answer that have no result yet.
    open: Vec<CallId>,
    /// The first row of the current turn, and whether its answer has begun.
    turn: Option<(i64, bool)>,
    /// How many known messages the last summary replaces, and the tokens of that summary with what it carries.
    base: (usize, u64),
}

impl TranscriptReader {
    /// The readable rows that were not taken back.
    fn lines(&mut self, rows: &[PlacedRow<'_>], began: Timestamp) -> Vec<TranscriptLine> {
        let mut lines = Vec::with_capacity(rows.len());
        for PlacedRow { row, session, is_late } in rows {
            if !row.active && !row.compacted {
                self.read.taken_back += 1;
                continue;
            }
            let readings = match message::read(row) {
                Reading::Said(said) => vec![RowContent::Said(said)],
                Reading::Summary(text) => vec![RowContent::Summary(text)],
                Reading::Joined { summary, said } => vec![RowContent::Summary(summary), RowContent::Said(said)],
                Reading::Unreadable(why) => {
                    self.read.skipped.push(Skipped { session: (*session).to_owned(), row: row.row, why });
                    continue;
                }
            };
            let at = moment(row.timestamp).unwrap_or(began);
            self.read.last_said = self.read.last_said.max(Some(at));
            let finish = row.finish_reason.as_deref().map_or(FinishReason::Stop, FinishReason::from_wire);
            let (session, shown, time): (Arc<str>, _, _) = (Arc::from(*session), row.active && !is_late, row.timestamp);
            let line = |content| TranscriptLine {
                session: Arc::clone(&session),
                row: row.row,
                shown,
                at,
                time,
                finish,
                content,
            };
            lines.extend(readings.into_iter().map(line));
        }
        lines
    }

    /// Reads a session, from summary to summary.
    fn session_of(&mut self, session: &str, lines: Vec<TranscriptLine>, is_continuation: bool) {
        self.end_answer();
        if is_continuation && !lines.iter().any(|line| matches!(line.content, RowContent::Summary(_))) {
            self.read.without_summary.push(session.to_owned());
        }
        let mut mode = if is_continuation { CompactionMode::Split } else { CompactionMode::InPlace };
        // Copies of the last messages stand at the beginning of a continuation, and after a summary.
        let mut after = is_continuation.then_some(None);
        let mut sections = sections(lines).into_iter().peekable();
        while let Some(Section { mut lines, summary }) = sections.next() {
            let head = summary.as_ref().map_or(0, |summary| self.head(&lines, summary));
            let head = lines.split_off(lines.len() - head);
            let from = self.known.len();
            let copies: HashSet<usize> = match after {
                Some(written) => self.copies_of_the_end(&lines, written).into_iter().map(|(line, _)| line).collect(),
                None => HashSet::new(),
            };
            let mut rest = lines.into_iter().enumerate().filter(|(at, _)| !copies.contains(at)).map(|(_, line)| line);
            let first = rest.next().map(|line| if copies.is_empty() { line } else { self.without_last(line) });
            first.into_iter().chain(rest).for_each(|line| self.add_message(line));
            if let Some(summary) = summary {
                let carried = self.carried(head);
                let next =
                    sections.peek().map_or_else(Vec::new, |next| self.copies_of_the_end(&next.lines, summary.time));
                let through = next.first().map_or(self.known.len(), |(_, known)| *known);
                after = Some(summary.time);
                self.compact(FoundCompaction { summary, mode, carried, from, through });
                mode = CompactionMode::InPlace;
            }
        }
    }

    /// Pairs of a line and the message that it copies, for the lines at the beginning. If the first lines are exactly
    /// the last known messages, these are the copies. Else only lines count that were written together with the
    /// summary, or that are known by their times. Of these, the ones that can be aligned are the copies.
    fn copies_of_the_end(&self, lines: &[TranscriptLine], written: Option<f64>) -> Vec<(usize, usize)> {
        let fingerprints: Vec<Fingerprint> = lines.iter().map_while(TranscriptLine::fingerprint).collect();
        let most = fingerprints.len().min(self.fingerprints.len());
        let same = |count: &usize| {
            let end = &self.fingerprints[self.fingerprints.len() - count..];
            fingerprints[..*count].iter().zip(end).all(|(fingerprint, known)| fingerprint.matches(known))
        };
        match (1..=most).rev().find(same) {
            Some(count) => (0..count).zip(self.fingerprints.len() - count..).collect(),
            None => {
                let at_once = copies::written_at_once(written, lines.iter().map(|line| line.time));
                let known = fingerprints.iter().take_while(|fingerprint| self.is_known(fingerprint)).count();
                copies::align(&fingerprints[..at_once.max(known).min(fingerprints.len())], &self.fingerprints)
            }
        }
    }

    /// Removes the last known message from the beginning of a line. Hermes joins user messages that got no answer.
    fn without_last(&self, line: TranscriptLine) -> TranscriptLine {
        let added_text = match (&line.content, self.fingerprints.last()) {
            (RowContent::Said(said), Some(last)) => copies::added_text(said, last),
            _ => None,
        };
        match added_text {
            Some(text) => TranscriptLine { content: RowContent::Said(chat::simple_user(&text)), ..line },
            None => line,
        }
    }

    /// How many lines at the end belong to the summary that follows: copies of the first messages, or lines that were
    /// written together with it.
    fn head(&self, lines: &[TranscriptLine], summary: &SummaryRow) -> usize {
        let at_once = copies::written_at_once(summary.time, lines.iter().rev().map(|line| line.time));
        self.copies_of_the_beginning(lines).max(at_once)
    }

    /// The messages that the copies before a summary stand for. A line that copies nothing becomes a message.
    fn carried(&mut self, head: Vec<TranscriptLine>) -> Vec<usize> {
        let mut carried = Vec::with_capacity(head.len());
        for (at, line) in head.into_iter().enumerate() {
            let Some(fingerprint) = line.fingerprint() else { continue };
            let same_place = self.fingerprints.get(at).filter(|known| fingerprint.matches(known)).map(|_| at);
            match same_place.or_else(|| self.fingerprints.iter().position(|known| fingerprint.matches(known))) {
                Some(known) => carried.push(known),
                None if self.is_joined(&line) => {}
                None => {
                    carried.push(self.known.len());
                    self.add_message(line);
                }
            }
        }
        carried.retain(|known| *known < self.known.len());
        carried.sort_unstable();
        carried.dedup();
        carried
    }

    /// Whether a line joins earlier messages.
    fn is_joined(&self, line: &TranscriptLine) -> bool {
        matches!(&line.content, RowContent::Said(said) if copies::is_joined(said, &self.fingerprints))
    }

    /// How many lines at the end are copies of the first messages.
    fn copies_of_the_beginning(&self, lines: &[TranscriptLine]) -> usize {
        let fingerprints: Vec<Option<Fingerprint>> = lines.iter().map(TranscriptLine::fingerprint).collect();
        let whole = self.fingerprints.len() + fingerprints.len();
        let at = |place: usize| match self.fingerprints.get(place) {
            Some(known) => Some(known),
            None => fingerprints[place - self.fingerprints.len()].as_ref(),
        };
        let most = fingerprints.len().min(whole / 2).min(MAX_HEAD_COPIES);
        let same = |count: &usize| {
            let ours = |place: usize| fingerprints[fingerprints.len() - count + place].as_ref();
            (0..*count).all(|place| at(place).zip(ours(place)).is_some_and(|(known, ours)| ours.matches(known)))
        };
        (1..=most).rev().find(same).unwrap_or(0)
    }

    /// Adds a message, unless it is known already or is the result of a call that is not open.
    fn add_message(&mut self, line: TranscriptLine) {
        let Some(fingerprint) = line.fingerprint().filter(|fingerprint| !self.is_known(fingerprint)) else { return };
        let TranscriptLine { session, row, shown, at, finish, content: RowContent::Said(said), .. } = line else {
            return;
        };
        match said.role {
            Role::User => self.open.clear(),
            Role::Assistant => self.open = said.calls.to_vec(),
            Role::Tool => {
                let call = said.calls.first().and_then(|call| self.open.iter().position(|open| open == call));
                let Some(call) = call else {
                    let id = said.calls.first().map_or_else(String::new, ToString::to_string);
                    let why = format!("it answers the call {id}, which is not open there");
                    return self.read.skipped.push(Skipped { session: session.to_string(), row, why });
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
        self.known.push(KnownMessage {
            row,
            shown,
            role: said.role,
            calls: Arc::clone(&said.calls),
            tokens: said.tokens.into(),
        });
        self.moments.extend(fingerprint.moment().map(|moment| ((said.role, moment), self.fingerprints.len())));
        self.fingerprints.push(fingerprint);
        let asks = said.role == Role::Tool || (is_answer && !said.calls.is_empty());
        let finish = if asks { FinishReason::ToolCalls } else { finish };
        self.entries.push(ImportedEntry::Said(ImportedMessage { origin: row, turn, said, finish, created_at: at }));
    }

    /// Whether the same message with the same time is known.
    fn is_known(&self, fingerprint: &Fingerprint) -> bool {
        let known = fingerprint.moment().and_then(|moment| self.moments.get(&(fingerprint.role(), moment)));
        known.is_some_and(|known| fingerprint.is_copy_of(&self.fingerprints[*known]))
    }

    /// Ends the current turn if its answer has begun.
    fn end_answer(&mut self) {
        self.turn = self.turn.filter(|(_, answers)| !answers);
    }

    fn compact(&mut self, compacting: FoundCompaction) {
        let FoundCompaction { summary: SummaryRow { row, at, text, .. }, mode, carried, from, mut through } =
            compacting;
        self.end_answer();
        // A tool result stays with its call, so the kept messages cannot begin with one.
        while self.known.get(through).is_some_and(|first| first.role == Role::Tool) {
            through += 1;
        }
        let still_shown = (from.min(through)..through).filter(|place| self.known[*place].shown);
        let mut carried: Vec<usize> = carried.into_iter().filter(|place| *place < through).chain(still_shown).collect();
        carried.sort_unstable();
        carried.dedup();
        let carried = whole_pairs(carried.into_iter().map(|place| &self.known[place]).collect());
        let cost = |known: &[KnownMessage]| known.iter().map(|known| known.tokens).sum::<u64>();
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
struct FoundCompaction {
    summary: SummaryRow,
    mode: CompactionMode,
    /// The messages that are copied before the summary.
    carried: Vec<usize>,
    /// Messages from this index on stand before the summary in the same session. Those that Hermes still shows are
    /// carried.
    from: usize,
    /// Messages from this index on are copied after the summary, so the summary does not replace them.
    through: usize,
}

impl TranscriptLine {
    fn fingerprint(&self) -> Option<Fingerprint> {
        match &self.content {
            RowContent::Said(said) => Some(Fingerprint::of(said, self.time)),
            RowContent::Summary(_) => None,
        }
    }
}

/// A row with a summary.
struct SummaryRow {
    row: i64,
    at: Timestamp,
    time: Option<f64>,
    text: String,
}

/// Lines up to a summary, or to the end of the session.
struct Section {
    lines: Vec<TranscriptLine>,
    summary: Option<SummaryRow>,
}

/// Cuts a session after each summary. Consecutive summaries are joined.
fn sections(lines: Vec<TranscriptLine>) -> Vec<Section> {
    let mut sections = vec![Section { lines: Vec::new(), summary: None }];
    for line in lines {
        let Some(section) = sections.last_mut() else { break };
        match (line.content, &mut section.summary) {
            (RowContent::Summary(text), Some(before)) => before.text = format!("{}\n\n{text}", before.text),
            (RowContent::Summary(text), summary) => {
                *summary = Some(SummaryRow { row: line.row, at: line.at, time: line.time, text });
            }
            (content, None) => section.lines.push(TranscriptLine { content, ..line }),
            (content, Some(_)) => {
                sections.push(Section { lines: vec![TranscriptLine { content, ..line }], summary: None });
            }
        }
    }
    sections
}

/// Drops messages from the end until every tool call has its result.
fn whole_pairs(mut known: Vec<&KnownMessage>) -> Vec<&KnownMessage> {
    let is_whole = |known: &[&KnownMessage]| {
        let answered = |call: &CallId| known.iter().any(|other| other.role == Role::Tool && other.calls.contains(call));
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

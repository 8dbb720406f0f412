//! Checks each message alone: its answer is stored, it is stored once, a failure is recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::{Facts, Finding, Rule};
use crate::chaos::history::{Attempt, End, Moment, Row, Stall, Turn};
use crate::chaos::marks::{Mark, Token};
use crate::chaos::model::{QUICK_WORDS, SLOW_PACE};

/// Error codes that a client may see for a well-formed request while processes die and the model server fails.
const EXPECTED: [&str; 10] = [
    "conversation_busy",
    "draining",
    "idempotency_in_progress",
    "interrupted",
    "overloaded",
    "rate_limit_exceeded",
    "store_unavailable",
    "upstream_error",
    "upstream_timeout",
    "cancelled",
];

pub(super) fn check(facts: &Facts<'_>, findings: &mut Vec<Finding>) {
    let mut rows: BTreeMap<Token, Vec<&Row>> = BTreeMap::new();
    let all = facts.read.conversations.iter().flat_map(|conversation| &conversation.full);
    for row in distinct_by_id(all) {
        if let Some(token) = row.mark().token() {
            rows.entry(token).or_default().push(row);
        }
        word_for_word(facts, row, findings);
    }
    for turn in &facts.history.turns {
        let rows = rows.get(&turn.token).map_or(&[][..], Vec::as_slice);
        is_stored(facts, turn, findings);
        is_there_once(facts, turn, rows, findings);
        failure_is_recorded(facts, turn, rows, findings);
        refusals_are_true(facts, turn, findings);
    }
}

fn distinct_by_id<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'a Row> {
    let mut ids = BTreeSet::new();
    rows.filter(|row| ids.insert(row.id.as_str())).collect()
}

fn is_stored(facts: &Facts<'_>, turn: &Turn, findings: &mut Vec<Finding>) {
    for (text, conversation) in turn.seen() {
        let place = facts.read.conversations.iter().find(|one| one.id == conversation);
        let is_answer = |row: &Row| row.role == "assistant" && !row.is_partial && row.text == text;
        if !place.is_some_and(|place| place.full.iter().any(is_answer)) {
            let what = format!("{} was answered in {conversation} with {text:?}, which is not stored", turn.token);
            findings.push(facts.finding(Rule::AcknowledgedIsStored, turn.token, what));
        }
    }
    for attempt in &turn.attempts {
        let Some(id) = &attempt.object else { continue };
        let stored = facts.read.objects.iter().find(|object| &object.id == id);
        if stored.is_none_or(|stored| stored.status == "404") {
            let what = format!("{} was given {id}, which is not found", turn.token);
            findings.push(facts.finding(Rule::IdsLeadHome, turn.token, what));
        }
        let End::Answered { text, .. } = &attempt.end else { continue };
        if stored.is_none_or(|stored| stored.status != "completed" || &stored.text != text) {
            let what = format!("{} was answered as {id} with {text:?}; read back: {stored:?}", turn.token);
            findings.push(facts.finding(Rule::AcknowledgedIsStored, turn.token, what));
        }
    }
}

/// Checks that a message has one row, and at most one more for each failed attempt that other turns followed. Those
/// rows have a status.
fn is_there_once(facts: &Facts<'_>, turn: &Turn, rows: &[&Row], findings: &mut Vec<Finding>) {
    let allowed = turn.allowed();
    let mut report = |what: String| findings.push(facts.finding(Rule::OnceOnly, turn.token, what));
    let asked: Vec<&&Row> = rows.iter().filter(|row| row.role == "user").collect();
    let live = asked.iter().filter(|row| row.turn_status.is_none()).count();
    if live > allowed {
        report(format!("{} is stored as {live} turns, {allowed} expected", turn.token));
    }
    if asked.len() > turn.attempts.len().max(1) {
        report(format!("{} has {} rows after {} requests", turn.token, asked.len(), turn.attempts.len()));
    }
    if asked.len() > 1 && turn.attempts.len() > 1 && live <= allowed && allowed == 1 {
        let turns: BTreeSet<&str> = asked.iter().map(|row| row.turn.as_str()).collect();
        if turns.len() > 1 {
            report(format!("{} is several turns, {turns:?}: a retry is an attempt of the first", turn.token));
        }
    }
    let answers = rows.iter().filter(|row| row.role == "assistant" && !row.is_partial).count();
    if answers > allowed {
        report(format!("{} has {answers} complete answers, {allowed} expected", turn.token));
    }
    let objects: BTreeSet<&str> = turn.attempts.iter().filter_map(|attempt| attempt.object.as_deref()).collect();
    if objects.len() > allowed {
        report(format!("{} was given the ids {objects:?}: a retry keeps the id", turn.token));
    }
}

fn word_for_word(facts: &Facts<'_>, row: &Row, findings: &mut Vec<Finding>) {
    let is_true = match row.mark() {
        Mark::Question(token) => {
            row.role == "user" && facts.turns.get(&token).is_some_and(|turn| turn.text == row.text)
        }
        Mark::Answer(token, call) => {
            let said = facts.answers.get(&(token, call)).copied().unwrap_or_default();
            let is_said = if row.is_partial { said.starts_with(&row.text) } else { said == row.text };
            row.role == "assistant" && is_said
        }
        Mark::None => false,
    };
    if !is_true {
        let what = format!("{} ({}) says {:?}, which no client sent and no model said", row.id, row.role, row.text);
        let thread = row.mark().token().and_then(|token| facts.thread_of(token));
        findings.push(Finding { rule: Rule::WordForWord, thread, what });
    }
}

/// Checks that the streamed output of a failed answer is stored, unless a later attempt completed.
fn failure_is_recorded(facts: &Facts<'_>, turn: &Turn, rows: &[&Row], findings: &mut Vec<Finding>) {
    if rows.iter().any(|row| row.role == "assistant" && !row.is_partial) {
        return;
    }
    let mut report = |what: String| findings.push(facts.finding(Rule::FailuresAreRecorded, turn.token, what));
    let Some(last) = turn.attempts.last() else { return };
    let failed = |end: &End| matches!(end, End::Failed { code, .. } if code == "upstream_error");
    if rows.is_empty() && turn.attempts.iter().any(|attempt| failed(&attempt.end)) {
        report(format!("{} failed at the model server and is not recorded", turn.token));
    }
    if rows.iter().any(|row| row.turn_status.is_none()) {
        report(format!("{} has no answer, and its rows do not say how it ended", turn.token));
    }
    // The turn of a client that hung up still runs. More than the client saw may be stored, or another attempt may
    // have replaced it.
    let (shown, is_upstreams) = match &last.end {
        End::Failed { code, shown, .. } => (shown, code == "upstream_error"),
        End::Broken { shown } => (shown, false),
        End::Answered { .. } | End::GaveUp { .. } => return,
    };
    let stored = rows.iter().filter(|row| row.is_partial && same_answer(&row.text, shown)).map(|row| row.text.as_str());
    let longest = stored.max_by_key(|text| text.len()).unwrap_or_default();
    let unsaved = shown.strip_prefix(longest).map_or(0, |rest| rest.split_whitespace().count());
    if unsaved > if is_upstreams { 0 } else { may_be_unsaved(facts, last) } {
        report(format!("{} showed {shown:?} before it failed ({:?}); stored is {longest:?}", turn.token, last.end));
    }
}

/// How many words a process may have streamed without storing them.
///
/// Streamed text is written every 250 ms. A whole quick answer fits into that time; `QUICK_WORDS` of a slow answer
/// take 2 s. While the store may be locked, a process can stream more, unless it is stopped itself.
fn may_be_unsaved(facts: &Facts<'_>, attempt: &Attempt) -> usize {
    let common = |one: (Moment, Moment), other: (Moment, Moment)| (one.0.max(other.0), one.1.min(other.1));
    let length = |(from, to): (Moment, Moment)| to.saturating_sub(from);
    let (own, others): (Vec<&Stall>, Vec<&Stall>) =
        facts.history.stalls.iter().partition(|stall| stall.server == Some(attempt.server));
    let locked = others.iter().map(|stall| {
        let time = common((stall.from, stall.to), (attempt.sent, attempt.ended));
        let stopped: Moment = own.iter().map(|own| length(common(time, (own.from, own.to)))).sum();
        length(time).saturating_sub(stopped)
    });
    let words = locked.sum::<Moment>() / SLOW_PACE;
    QUICK_WORDS.saturating_add(usize::try_from(words).unwrap_or(usize::MAX))
}

fn same_answer(stored: &str, shown: &str) -> bool {
    Mark::of(stored) == Mark::of(shown)
}

fn refusals_are_true(facts: &Facts<'_>, turn: &Turn, findings: &mut Vec<Finding>) {
    for attempt in &turn.attempts {
        let End::Failed { status, code, shown } = &attempt.end else { continue };
        let is_expected = EXPECTED.contains(&code.as_str()) && (shown.is_empty() || code != "store_unavailable");
        if !is_expected {
            let what =
                format!("{} at process {} was answered {status} {code:?} after {shown:?}", turn.token, attempt.server);
            findings.push(facts.finding(Rule::NoWrongRefusal, turn.token, what));
        }
    }
}

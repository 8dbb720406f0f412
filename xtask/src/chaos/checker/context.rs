//! Checks what the model is shown: in its calls, and in the model view.
//!
//! A context is the conversation from its beginning, or a summary and the end of the conversation. A compaction may
//! carry one older question along.

use std::collections::BTreeSet;

use super::{Facts, Finding, Rule};
use crate::chaos::history::{Conversation, Line, Row};
use crate::chaos::marks::{Mark, Token, mentioned};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Vec<Finding>) {
    let mut told = BTreeSet::new();
    // The same mistake is usually in all later contexts too, so it is reported once.
    let mut tell = |title: String, found: Vec<Finding>| {
        for finding in found.into_iter().filter(|finding| told.insert(finding.what.clone())) {
            findings.push(Finding { what: format!("{title} {}", finding.what), ..finding });
        }
    };
    for (number, call) in facts.history.calls.iter().enumerate() {
        let mut found = Vec::new();
        for leak in &call.leaks {
            let thread = call.messages.iter().find_map(|line| facts.thread_of(Mark::of(&line.text).token()?));
            found.push(Finding { rule: Rule::NoGatewayIds, thread, what: format!("contains {leak:?}") });
        }
        if call.is_summary {
            one_thread(facts, call.messages.iter().flat_map(|line| mentioned(&line.text)), &mut found);
        } else {
            judge(facts, &call.messages, None, &mut found);
        }
        tell(format!("model call {number}"), found);
    }
    for conversation in &facts.read.conversations {
        let mut found = Vec::new();
        judge(facts, &conversation.model, Some(conversation), &mut found);
        tell(format!("the model view of {}", conversation.id), found);
    }
}

/// Checks one context. If it is a model view, `view_of` is its conversation, and the view must have all of it.
fn judge(facts: &Facts<'_>, context: &[Line], view_of: Option<&Conversation>, findings: &mut Vec<Finding>) {
    // Tool calls have rules of their own.
    let context: Vec<Line> = context.iter().filter(|line| line.calls.is_empty()).cloned().collect();
    let tokens = || context.iter().filter_map(|line| Mark::of(&line.text).token());
    one_thread(facts, tokens(), findings);
    let (base, said) = match context.split_first() {
        // A first message without a mark is the summary or the note in place of compacted messages.
        Some((first, rest)) if Mark::of(&first.text) == Mark::None => (Some(first), rest),
        _ => (None, &context[..]),
    };
    alternates(facts, base.is_some(), said, findings);
    let Some(conversation) = view_of.or_else(|| conversation_of(facts, said)) else { return };
    let through = if view_of.is_some() { conversation.full.len() } else { place_of(conversation, said) };
    is_whole(facts, conversation, &conversation.full[..through], (base.is_some(), said), findings);
}

fn one_thread(facts: &Facts<'_>, tokens: impl Iterator<Item = Token>, findings: &mut Vec<Finding>) {
    let tokens: Vec<Token> = tokens.collect();
    let threads: BTreeSet<Option<usize>> = tokens.iter().map(|token| facts.thread_of(*token)).collect();
    if threads.len() > 1 || threads.contains(&None) {
        let thread = threads.iter().flatten().next().copied();
        let what = format!("has messages of the threads {threads:?}");
        findings.push(Finding { rule: Rule::NothingForeign, thread, what });
    }
}

/// Checks that questions and answers alternate, that each answer belongs to the question before it, and that none is
/// repeated.
///
/// After a summary the first answer may lack its question, and an older question may be carried along.
fn alternates(facts: &Facts<'_>, has_base: bool, said: &[Line], findings: &mut Vec<Finding>) {
    let mut seen = BTreeSet::new();
    let mut open: Option<Token> = None;
    for (place, line) in said.iter().enumerate() {
        let is_edge = has_base && place < 2;
        let mark = Mark::of(&line.text);
        let problem = match (line.role.as_str(), mark) {
            ("user", Mark::Question(token)) => {
                let before = open.replace(token).filter(|_| !is_edge);
                let may_repeat = facts.turns.get(&token).is_some_and(|turn| turn.allowed() > 1);
                let again = !seen.insert(token) && !may_repeat;
                match before {
                    Some(before) => Some((token, format!("{token} after {before}, which has no answer or note"))),
                    None => again.then(|| (token, format!("{token} twice"))),
                }
            }
            ("assistant", Mark::Answer(token, _)) => {
                let follows = open.take() == Some(token) || is_edge;
                (!follows).then(|| (token, format!("an answer to {token} that does not follow it")))
            }
            // The gateway's note for a turn without an answer.
            ("assistant", Mark::None) if line.text.starts_with('[') => {
                open = None;
                None
            }
            (role, _) => {
                let text = format!("a {role} message that is neither a question nor an answer: {:?}", line.text);
                mark.token().or(open).or(seen.last().copied()).map(|token| (token, text))
            }
        };
        if let Some((token, what)) = problem {
            findings.push(facts.finding(Rule::TrueContext, token, format!("has {what}")));
        }
    }
}

/// The conversation of the last question in a context. `None` if the question may be stored twice.
fn conversation_of<'a>(facts: &Facts<'a>, said: &[Line]) -> Option<&'a Conversation> {
    let Mark::Question(token) = Mark::of(&said.last()?.text) else { return None };
    let has = |conversation: &&Conversation| conversation.full.iter().any(|row| row.mark() == Mark::Question(token));
    let mut found: Vec<&Conversation> = facts.read.conversations.iter().filter(has).collect();
    // Branches that inherit the question have the same rows before it.
    found.sort_by_key(|conversation| conversation.is_branch);
    // A message that may be stored twice, or that failed and was sent again later, has more than one place.
    let rows = found.first()?.full.iter().filter(|row| row.mark() == Mark::Question(token)).count();
    (rows == 1 && facts.turns.get(&token)?.allowed() == 1).then(|| found[0])
}

/// The number of rows before the last question of a context.
fn place_of(conversation: &Conversation, said: &[Line]) -> usize {
    let last = said.last().map(|line| Mark::of(&line.text));
    conversation.full.iter().position(|row| Some(row.mark()) == last).unwrap_or(0)
}

/// Checks that a context has the complete answers of these rows, word for word and in order; after a summary, the
/// last ones.
fn is_whole(
    facts: &Facts<'_>,
    conversation: &Conversation,
    before: &[Row],
    (has_base, said): (bool, &[Line]),
    findings: &mut Vec<Finding>,
) {
    let complete = before.iter().filter(|row| row.role == "assistant" && !row.is_partial);
    let expected: Vec<(&str, Mark)> = complete.map(|row| (row.text.as_str(), row.mark())).collect();
    let answers = said.iter().filter(|line| line.role == "assistant");
    let is_complete = |line: &&Line| expected.iter().any(|(_, mark)| *mark == Mark::of(&line.text));
    let shown: Vec<&str> = answers.filter(is_complete).map(|line| line.text.as_str()).collect();
    let kept = if has_base { expected.len().saturating_sub(shown.len()) } else { 0 };
    let texts: Vec<&str> = expected[kept..].iter().map(|(text, _)| *text).collect();
    if shown != texts {
        let names = |texts: &[&str]| {
            let marks = texts.iter().map(|text| text.split_whitespace().next().unwrap_or_default());
            marks.collect::<Vec<_>>().join(" ")
        };
        let what = format!("of {} shows [{}], stored is [{}]", conversation.id, names(&shown), names(&texts));
        let thread = facts.thread_in(conversation);
        findings.push(Finding { rule: Rule::TrueContext, thread, what });
    }
}

//! Checks tool calls: how often each was made, and which results the model is shown.

use std::collections::BTreeSet;

use super::{Facts, Finding, Rule};
use crate::chaos::history::Line;
use crate::chaos::marks::token_of_call;

pub(super) fn check(facts: &Facts<'_>, findings: &mut Vec<Finding>) {
    let mut made = BTreeSet::new();
    for id in &facts.history.executions {
        if !made.insert(id) {
            findings.push(finding(facts, Rule::CallsAreMadeOnce, id, format!("{id} was made again")));
        }
    }
    // The same mistake is usually in all later contexts too, so it is reported once.
    let mut told = BTreeSet::new();
    let calls = facts.history.calls.iter().enumerate();
    let contexts = calls.map(|(number, call)| (format!("model call {number}"), call.messages.as_slice()));
    let views = facts.read.conversations.iter();
    let views = views.map(|one| (format!("the model view of {}", one.id), one.model.as_slice()));
    for (title, context) in contexts.chain(views) {
        for (id, what) in flaws(context) {
            if told.insert((id.clone(), what)) {
                let what = format!("{title} has {id} {what}");
                findings.push(finding(facts, Rule::CallsHaveOneResult, &id, what));
            }
        }
    }
}

fn finding(facts: &Facts<'_>, rule: Rule, id: &str, what: String) -> Finding {
    Finding { rule, thread: token_of_call(id).and_then(|token| facts.thread_of(token)), what }
}

/// The calls of a context that do not have exactly one result directly after them, and results without a call.
fn flaws(context: &[Line]) -> Vec<(String, &'static str)> {
    let mut flaws = Vec::new();
    let (mut open, mut seen) = (Vec::new(), BTreeSet::new());
    for line in context {
        if line.role == "tool" {
            for id in &line.calls {
                match open.iter().position(|call| call == id) {
                    Some(at) => drop(open.swap_remove(at)),
                    None => flaws.push((id.clone(), "with a result that does not follow its call")),
                }
            }
            continue;
        }
        flaws.extend(open.drain(..).map(|id| (id, "without a result")));
        for id in &line.calls {
            if !seen.insert(id.clone()) {
                flaws.push((id.clone(), "twice"));
            }
        }
        open.clone_from(&line.calls);
    }
    flaws.extend(open.into_iter().map(|id| (id, "without a result")));
    flaws
}

//! Checks each full view: a message, then its own answer, and turns in the order in which clients saw them.

use std::collections::BTreeMap;

use super::{Facts, Finding, Rule};
use crate::chaos::history::{Conversation, Row};
use crate::chaos::marks::{Mark, Token};

pub(super) fn check(facts: &Facts<'_>, findings: &mut Vec<Finding>) {
    for conversation in &facts.read.conversations {
        answers_follow(facts, conversation, findings);
        seen_order_is_kept(facts, conversation, findings);
    }
}

/// Checks that partial answers and at most one complete answer follow their own message.
fn answers_follow(facts: &Facts<'_>, conversation: &Conversation, findings: &mut Vec<Finding>) {
    let mut open: Option<(&Row, Token)> = None;
    for row in &conversation.full {
        match row.mark() {
            Mark::Question(token) => {
                unanswered(facts, open, findings);
                open = Some((row, token));
            }
            Mark::Answer(token, _) => {
                if !open.is_some_and(|(asked, of)| of == token && asked.turn == row.turn) {
                    let before = open.map(|(_, of)| of.to_string()).unwrap_or_else(|| "nothing open".to_owned());
                    let what = format!("{} has an answer to {token} after {before}: {:?}", conversation.id, row.text);
                    findings.push(facts.finding(Rule::NoInterleaving, token, what));
                }
                if !row.is_partial {
                    open = None;
                }
            }
            // `turns::word_for_word` reports texts without a mark.
            Mark::None => {}
        }
    }
    unanswered(facts, open, findings);
}

/// Checks that a message without a complete answer has a status.
fn unanswered(facts: &Facts<'_>, open: Option<(&Row, Token)>, findings: &mut Vec<Finding>) {
    if let Some((row, token)) = open.filter(|(row, _)| row.turn_status.is_none()) {
        let what = format!("{token} ({}) is not followed by its answer, and does not say why", row.id);
        findings.push(facts.finding(Rule::NoInterleaving, token, what));
    }
}

/// Checks the order: if a client read a complete answer before a message was sent, the answer is stored before the
/// message.
fn seen_order_is_kept(facts: &Facts<'_>, conversation: &Conversation, findings: &mut Vec<Finding>) {
    let mut places: BTreeMap<Token, usize> = BTreeMap::new();
    for (place, row) in conversation.full.iter().enumerate().filter(|(_, row)| row.turn_status.is_none()) {
        if let Mark::Question(token) = row.mark() {
            places.entry(token).or_insert(place);
        }
    }
    let mut earlier: Vec<(usize, u64, Token)> = places
        .iter()
        .filter_map(|(token, place)| {
            let turn = facts.turns.get(token)?;
            (turn.allowed() == 1).then_some((*place, turn.answered()?, *token))
        })
        .collect();
    earlier.sort_unstable();
    for (token, place) in &places {
        let Some(turn) = facts.turns.get(token).filter(|turn| turn.allowed() == 1) else { continue };
        let late = earlier.iter().rev().take_while(|(of, ..)| of > place);
        for (_, _, first) in late.filter(|(_, answered, _)| *answered < turn.asked()) {
            let what = format!("{} has {token} before {first}, whose answer was seen earlier", conversation.id);
            findings.push(facts.finding(Rule::NoInterleaving, *token, what));
        }
    }
}

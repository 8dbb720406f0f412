//! What a run says when something is broken: the promise, and the story of the conversation.

use super::checker::Finding;
use super::history::{End, History, ReadBack};

/// Findings that are told with their stories; further ones are only counted.
const TOLD: usize = 5;

/// The findings in plain words, each thread's story once.
pub(super) fn tell(findings: &[Finding], history: &History, read: &ReadBack) {
    let mut told = Vec::new();
    for finding in findings.iter().take(TOLD) {
        println!("\nBROKEN: {finding}");
        if let Some(thread) = finding.thread.filter(|thread| !told.contains(thread)) {
            story(thread, history, read);
            told.push(thread);
        }
    }
    if findings.len() > TOLD {
        println!("\n{} more:", findings.len() - TOLD);
        for finding in &findings[TOLD..] {
            println!("  {finding}");
        }
    }
}

/// Everything that is known of one thread: what its clients did and saw, and what is stored.
fn story(thread: usize, history: &History, read: &ReadBack) {
    let of = &history.threads[thread];
    println!("  history of {} (tenant {}):", of.name, of.tenant);
    let mut lines: Vec<(u64, String)> = Vec::new();
    for turn in history.turns.iter().filter(|turn| turn.thread == thread) {
        for (number, attempt) in turn.attempts.iter().enumerate() {
            let asked =
                format!("{} try {number} at process {}, {:?}, {}", turn.token, attempt.server, turn.retries, turn.api);
            let object = attempt.object.as_deref().unwrap_or_default();
            lines.push((attempt.sent, format!("{asked} -> {} at {} ms {object}", seen(&attempt.end), attempt.ended)));
        }
    }
    lines.sort();
    for (at, line) in lines {
        println!("    {at:>7} ms  {line}");
    }
    let tokens: Vec<_> = history.turns.iter().filter(|turn| turn.thread == thread).map(|turn| turn.token).collect();
    for conversation in &read.conversations {
        let is_own =
            conversation.full.iter().any(|row| row.mark().token().is_some_and(|token| tokens.contains(&token)));
        if !is_own {
            continue;
        }
        println!("  stored in {} (branch: {}):", conversation.id, conversation.is_branch);
        for row in &conversation.full {
            let status = row.turn_status.as_deref().unwrap_or("answered");
            let partial = if row.is_partial { ", partial" } else { "" };
            println!("    {} {}: {} ({status}{partial}) {}", row.id, row.role, short(&row.text), row.turn);
        }
    }
}

fn seen(end: &End) -> String {
    match end {
        End::Answered { text, .. } => format!("answered {}", short(text)),
        End::Failed { status, code, shown } => format!("error {status} {code} after {}", short(shown)),
        End::Broken { shown } => format!("connection broke after {}", short(shown)),
        End::GaveUp { shown } => format!("client hung up after {}", short(shown)),
    }
}

/// The beginning of a text, and how long it is.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let beginning = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    format!("{beginning:?} ({} words)", words.len())
}

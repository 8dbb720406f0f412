//! The report of findings: the broken rule, and the history of the thread.

use super::checker::Finding;
use super::history::{End, History, ReadBack};

/// This many findings are printed with the thread's history; the others get one line each.
const DETAILED: usize = 5;

/// Prints the findings. Each thread's history is printed once.
pub(super) fn print(findings: &[Finding], history: &History, read: &ReadBack) {
    let mut printed = Vec::new();
    for finding in findings.iter().take(DETAILED) {
        println!("\nBROKEN: {finding}");
        if let Some(thread) = finding.thread.filter(|thread| !printed.contains(thread)) {
            print_thread(thread, history, read);
            printed.push(thread);
        }
    }
    if findings.len() > DETAILED {
        println!("\n{} more:", findings.len() - DETAILED);
        for finding in &findings[DETAILED..] {
            println!("  {finding}");
        }
    }
}

/// Prints what the clients of one thread did and saw, and what is stored.
fn print_thread(thread: usize, history: &History, read: &ReadBack) {
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

/// The first words of a text, and its length.
fn short(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let beginning = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    format!("{beginning:?} ({} words)", words.len())
}

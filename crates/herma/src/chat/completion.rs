//! What the tab key completes: commands, names of conversations behind `/switch`, and models behind `/model`.

use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::input::COMMANDS;

/// Names that can be completed.
#[derive(Debug, Default)]
pub(super) struct ChatWords {
    /// Names and short ids of conversations, the last used first.
    pub(super) conversations: Vec<String>,
    /// Models that the configuration names.
    pub(super) models: Vec<String>,
}

/// The completion of a chat.
pub(super) struct Completion {
    words: Arc<Mutex<ChatWords>>,
}

impl Completion {
    pub(super) fn of(words: Arc<Mutex<ChatWords>>) -> Self {
        Self { words }
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, found) = candidates(&line[..at], &words);
        let pair = |word: String| Pair { display: word.trim_end().to_owned(), replacement: word };
        Ok((from, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

/// Where the word to complete begins, and what it can become.
fn candidates(typed: &str, words: &ChatWords) -> (usize, Vec<String>) {
    let begins = |from: usize, with: &[String]| {
        let fitting = with.iter().filter(|word| word.starts_with(&typed[from..]));
        (from, fitting.cloned().collect())
    };
    for (command, with) in [("/switch ", &words.conversations), ("/model ", &words.models)] {
        if typed.starts_with(command) {
            return begins(command.len(), with);
        }
    }
    if !typed.starts_with('/') || typed.contains(' ') {
        return (0, Vec::new());
    }
    let commands: Vec<String> = COMMANDS
        .iter()
        .map(|command| match command.takes {
            Some(_) => format!("/{} ", command.name),
            None => format!("/{}", command.name),
        })
        .collect();
    begins(0, &commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_conversations_and_models_are_completed_and_messages_are_not() {
        let words = ChatWords { conversations: vec!["trip".into(), "treat".into()], models: vec!["gpt".into()] };
        let of = |typed: &str| candidates(typed, &words).1.join("|");
        assert_eq!(of("/se"), "/sessions");
        assert_eq!(of("/sw"), "/switch ");
        assert_eq!(of("/switch tr"), "trip|treat");
        assert_eq!(of("/model "), "gpt");
        assert_eq!(of("/copy x"), "");
        assert_eq!(of("hello /se"), "");
        assert_eq!(candidates("/switch tr", &words).0, 8);
    }
}

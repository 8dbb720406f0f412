//! What the tab key completes: commands, names of conversations behind `/switch`, and models behind `/model`. If
//! several fit, they are listed: commands with what stands behind them, conversations with their titles.

use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::input::COMMANDS;
use crate::terminal::Stream;
use crate::text_width::{columns, padded, shortened};

/// The widest name of a conversation beside its title.
const NAME: usize = 24;
/// The widest row of the list, and the gap that the line editor leaves between two.
const ROW: usize = 76;
const GAP: usize = 2;

/// Names that can be completed.
#[derive(Debug, Default)]
pub(super) struct ChatWords {
    /// Conversations, the last used first.
    pub(super) conversations: Vec<KnownConversation>,
    /// Models that the configuration names.
    pub(super) models: Vec<String>,
}

/// A conversation as the tab key knows it.
#[derive(Debug)]
pub(super) struct KnownConversation {
    /// Its name, else its short id.
    pub(super) name: String,
    /// Empty if it has none.
    pub(super) title: String,
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
        let width = Stream::Stderr.width().map_or(ROW, |width| width.saturating_sub(GAP).min(ROW));
        Ok(candidates(&line[..at], &words, width))
    }
}

impl Hinter for Completion {
    type Hint = String;
}
impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}

/// Where the word to complete begins, and what it can become. A row of the list has at most `width` columns.
fn candidates(typed: &str, words: &ChatWords, width: usize) -> (usize, Vec<Pair>) {
    if let Some(begun) = typed.strip_prefix("/switch ") {
        let fitting = words.conversations.iter().filter(|known| known.name.starts_with(begun));
        return (typed.len() - begun.len(), rows(&fitting.collect::<Vec<_>>(), width));
    }
    if let Some(begun) = typed.strip_prefix("/model ") {
        let fitting = words.models.iter().filter(|model| model.starts_with(begun));
        let pair = |model: &String| Pair { display: model.clone(), replacement: model.clone() };
        return (typed.len() - begun.len(), fitting.map(pair).collect());
    }
    let Some(begun) = typed.strip_prefix('/').filter(|begun| !begun.contains(' ')) else { return (0, Vec::new()) };
    let fitting = COMMANDS.iter().filter(|command| command.name.starts_with(begun));
    let pair = |(name, takes): (&str, Option<&str>)| match takes {
        Some(takes) => Pair { display: format!("/{name} {takes}"), replacement: format!("/{name} ") },
        None => Pair { display: format!("/{name}"), replacement: format!("/{name}") },
    };
    (0, fitting.map(|command| pair((command.name, command.takes))).collect())
}

/// Conversations with their titles in a second column.
fn rows(found: &[&KnownConversation], width: usize) -> Vec<Pair> {
    let beside = found.iter().map(|known| columns(&known.name)).max().unwrap_or_default().min(NAME);
    let display = |known: &KnownConversation| {
        let name = padded(&shortened(&known.name, NAME), beside);
        shortened(format!("{name}  {}", known.title).trim_end(), width)
    };
    found.iter().map(|known| Pair { display: display(known), replacement: known.name.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> ChatWords {
        let known = |name: &str, title: &str| KnownConversation { name: name.to_owned(), title: title.to_owned() };
        let conversations = vec![known("trip", "Oslo in May"), known("treat", ""), known("0163541e", "Bread")];
        ChatWords { conversations, models: vec!["gpt".into()] }
    }

    #[test]
    fn commands_conversations_and_models_are_completed_and_messages_are_not() {
        let of = |typed: &str| {
            let found = candidates(typed, &words(), 80).1;
            found.into_iter().map(|pair| pair.replacement).collect::<Vec<_>>().join("|")
        };
        assert_eq!(of("/se"), "/sessions");
        assert_eq!(of("/sw"), "/switch ");
        assert_eq!(of("/switch tr"), "trip|treat");
        assert_eq!(of("/model "), "gpt");
        assert_eq!(of("/copy x"), "");
        assert_eq!(of("hello /se"), "");
        assert_eq!(candidates("/switch tr", &words(), 80).0, 8);
    }

    #[test]
    fn conversations_are_listed_with_their_titles_and_commands_with_what_they_take() {
        let of = |typed: &str, width: usize| {
            candidates(typed, &words(), width).1.into_iter().map(|pair| pair.display).collect::<Vec<_>>()
        };
        assert_eq!(of("/switch ", 80), ["trip      Oslo in May", "treat", "0163541e  Bread"]);
        assert_eq!(of("/switch ", 12), ["trip      O…", "treat", "0163541e  B…"]);
        assert_eq!(of("/sw", 80), ["/switch ID"]);
    }
}

//! The marks by which every text of a run is recognised.
//!
//! A client's message begins with `ask#7`, the model's second answer to it with `answer#7.2`. No two texts of a run
//! share a mark, so a copied, lost or misplaced text is visible in every view.

use std::fmt;

use crate::random::Random;

/// Words to fill texts with.
const WORDS: [&str; 12] =
    ["river", "stone", "lamp", "winter", "paper", "garden", "copper", "window", "bread", "signal", "harbour", "cloud"];

const ASK: &str = "ask#";
const ANSWER: &str = "answer#";
const CALL: &str = "call-";

/// In a client's message: the model calls a tool of Herma's before it answers.
const WANTS_CALL: &str = "[tool]";

/// The number of one client message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Token(pub(super) u32);

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{ASK}{}", self.0)
    }
}

/// The kind of a text, read from its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// A client's message.
    Question(Token),
    /// An answer to that message, with the number of the model call, from 1.
    Answer(Token, u32),
    /// No mark: a text of the gateway, or a foreign text.
    None,
}

impl Mark {
    /// Reads the mark at the beginning of a text.
    pub(super) fn of(text: &str) -> Self {
        let first = text.split_whitespace().next().unwrap_or_default();
        if let Some(number) = first.strip_prefix(ASK) {
            return number.parse().map_or(Self::None, |number| Self::Question(Token(number)));
        }
        let answer = first.strip_prefix(ANSWER).and_then(|rest| rest.split_once('.'));
        match answer.map(|(number, call)| (number.parse(), call.parse())) {
            Some((Ok(number), Ok(call))) => Self::Answer(Token(number), call),
            _ => Self::None,
        }
    }

    /// The message that this text is, or that it answers.
    pub(super) fn token(self) -> Option<Token> {
        match self {
            Self::Question(token) | Self::Answer(token, _) => Some(token),
            Self::None => None,
        }
    }
}

/// A client's message with this many words. With `calls_tool`, the model calls a tool before it answers.
pub(super) fn question(token: Token, words: u64, calls_tool: bool, random: &mut Random) -> String {
    let wants = if calls_tool { format!("{WANTS_CALL} ") } else { String::new() };
    format!("{token} {wants}{}", filling(words, random))
}

/// Whether the model calls a tool before it answers this message.
pub(super) fn wants_call(question: &str) -> bool {
    question.contains(WANTS_CALL)
}

/// The id of a tool call for a message, made in this call of the model. No two calls of a run have the same id.
pub(super) fn call_id(token: Token, call: u32) -> String {
    format!("{CALL}{}-{call}", token.0)
}

/// The message for which the model made this tool call.
pub(super) fn token_of_call(id: &str) -> Option<Token> {
    id.strip_prefix(CALL)?.split_once('-')?.0.parse().ok().map(Token)
}

/// The model's answer with this many words.
pub(super) fn answer(token: Token, call: u32, words: u64, random: &mut Random) -> String {
    format!("{ANSWER}{}.{call} {}", token.0, filling(words, random))
}

fn filling(words: u64, random: &mut Random) -> String {
    let words: Vec<&str> = (0..words.max(1)).map(|_| pick(&WORDS, random)).collect();
    words.join(" ")
}

/// One of several values.
pub(super) fn pick<T: Copy>(values: &[T], random: &mut Random) -> T {
    values[(random.next() % values.len() as u64) as usize]
}

/// All messages that a text mentions, in order. For requests for a summary, which quote messages.
pub(super) fn mentioned(text: &str) -> Vec<Token> {
    let rest = text.match_indices(ASK).map(|(at, _)| &text[at + ASK.len()..]);
    let digits = rest.map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default());
    digits.filter_map(|digits| digits.parse().ok().map(Token)).collect()
}

/// A random stream for one purpose. The same seed and purpose give the same numbers.
pub(super) fn stream(seed: u64, purpose: u64) -> Random {
    let mut mixed = Random::new(seed);
    let seed = mixed.next() ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93);
    Random::new(Random::new(seed).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_recognised_by_their_first_word() {
        let random = &mut stream(1, 1);
        assert_eq!(Mark::of(&question(Token(7), 3, false, random)), Mark::Question(Token(7)));
        assert_eq!(Mark::of(&answer(Token(7), 2, 3, random)), Mark::Answer(Token(7), 2));
        for other in ["", "river stone", "ask#", "answer#7", "answer#7.x", "[No reply was given: it failed.]"] {
            assert_eq!(Mark::of(other), Mark::None, "{other}");
        }
        let calling = question(Token(7), 3, true, random);
        assert_eq!((Mark::of(&calling), wants_call(&calling)), (Mark::Question(Token(7)), true));
        assert_eq!(token_of_call(&call_id(Token(7), 2)), Some(Token(7)));
        assert_eq!(mentioned("user: ask#12 a\nassistant: answer#12.1 b\nuser: ask#3"), [Token(12), Token(3)]);
    }

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_each_purpose_its_own() {
        let numbers = |seed, purpose| {
            (0..4).map(|_| 0).scan(stream(seed, purpose), |random, _| Some(random.next())).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert_ne!(numbers(1, 2), numbers(1, 3));
        assert_ne!(numbers(1, 2), numbers(2, 2));
    }
}

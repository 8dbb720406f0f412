//! The random steps.

use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// One step. Numbers select among the ids, messages and calls that exist.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Turn(Turn),
    /// Turns at the same time: the sizes of their messages, and how each is sent.
    AtOnce(Vec<(usize, Api)>),
    /// A process is killed so many milliseconds after a turn was sent to it.
    KilledDuring(Turn, u64),
    /// An idle process is killed.
    Killed {
        second: bool,
    },
    /// A client asks for a compaction.
    Compact {
        second: bool,
        mode: &'static str,
    },
    /// A client undoes the last compaction.
    Undo {
        second: bool,
    },
    /// A client pins or unpins a message.
    Pin {
        message: usize,
        pinned: bool,
    },
    /// The next summary fails.
    SummaryFails,
}

/// What the client sends, and what the model answers.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) input: Input,
    pub(super) history: History,
    pub(super) api: Api,
    pub(super) reply: ModelReply,
}

/// The new messages of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) enum Input {
    /// A text of about so many tokens.
    Text(usize),
    /// A text with an image.
    Image,
    /// The last message again if it was not answered, else a short text.
    Again,
    /// The results of some open tool calls if there are any, else a short text.
    Results(usize),
}

/// The earlier messages that a client sends with the new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    /// None.
    None,
    /// All complete messages.
    Whole,
    /// The messages of completed turns.
    Answered,
}

/// Which id a turn names, which process gets it, and whether it is streamed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Api {
    pub(super) id: usize,
    pub(super) second: bool,
    pub(super) streamed: bool,
}

/// What the model server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelReply {
    Text,
    Calls(usize),
    Error,
    CutOff,
    /// The first call fails because the context is too long.
    TooLong,
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 5..300_usize, 6 => 300..900_usize, 3 => 900..2_600_usize, 1 => 3_600..6_000_usize]
}

fn api() -> impl Strategy<Value = Api> {
    (any::<usize>(), any::<bool>(), any::<bool>()).prop_map(|(id, second, streamed)| Api { id, second, streamed })
}

fn turn() -> impl Strategy<Value = Turn> {
    let input = prop_oneof![
        8 => size().prop_map(Input::Text),
        1 => Just(Input::Image),
        3 => Just(Input::Again),
        4 => (0..3_usize).prop_map(Input::Results),
    ];
    let history = prop_oneof![4 => Just(History::None), 2 => Just(History::Whole), 1 => Just(History::Answered)];
    let reply = prop_oneof![
        10 => Just(ModelReply::Text),
        4 => (1..3_usize).prop_map(ModelReply::Calls),
        2 => Just(ModelReply::Error),
        2 => Just(ModelReply::CutOff),
        1 => Just(ModelReply::TooLong),
    ];
    (input, history, api(), reply).prop_map(|(input, history, api, reply)| Turn { input, history, api, reply })
}

fn mode() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&crate::long::MODES[..])
}

/// A compaction mode and a list of steps.
pub(super) fn scenarios() -> impl Strategy<Value = (&'static str, Vec<Step>)> {
    let step = prop_oneof![
        24 => turn().prop_map(Step::Turn),
        3 => proptest::collection::vec((size(), api()), 2..4).prop_map(Step::AtOnce),
        3 => (turn(), 0..40_u64).prop_map(|(turn, delay)| Step::KilledDuring(turn, delay)),
        1 => any::<bool>().prop_map(|second| Step::Killed { second }),
        2 => (any::<bool>(), mode()).prop_map(|(second, mode)| Step::Compact { second, mode }),
        2 => any::<bool>().prop_map(|second| Step::Undo { second }),
        3 => (any::<usize>(), proptest::bool::weighted(0.7))
            .prop_map(|(message, pinned)| Step::Pin { message, pinned }),
        1 => Just(Step::SummaryFails),
    ];
    (mode(), proptest::collection::vec(step, 10..=25))
}

//! What can happen to a conversation.

use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// One thing that happens. Numbers choose among what there is.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// One turn.
    Turn(Turn),
    /// Turns that are sent at one time, as sizes of their messages and where they are sent.
    AtOnce(Vec<(usize, Api)>),
    /// A process is killed so many milliseconds after a turn was sent to it.
    KilledDuring(Turn, u64),
    /// A process is killed while it has nothing to do.
    Killed { second: bool },
    /// Somebody asks for a compaction.
    Compact { second: bool, mode: &'static str },
    /// Somebody takes the last compaction back.
    Undo { second: bool },
    /// Somebody pins a message, or lets it go.
    Pin { message: usize, pinned: bool },
    /// The next summary fails.
    SummaryFails,
}

/// A turn as a client makes it and as the model answers it.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) input: Input,
    pub(super) history: History,
    pub(super) api: Api,
    pub(super) reply: Answered,
}

/// What a client says.
#[derive(Debug, Clone, Copy)]
pub(super) enum Input {
    /// A text of about so many tokens.
    Text(usize),
    /// A text with an image.
    Image,
    /// The last message once more if it was not answered, else a short text.
    Again,
    /// The results of the first so many open calls if there are any, else a short text.
    Results(usize),
}

/// What a client sends along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    /// What is new alone.
    None,
    /// All that was said.
    Whole,
    /// All that was said and answered.
    Answered,
}

/// Which id a turn names, which process it is sent to, and how its answer is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Api {
    pub(super) id: usize,
    pub(super) second: bool,
    pub(super) streamed: bool,
}

/// What the model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    WithText,
    WithCalls(usize),
    WithAnError,
    CutOff,
    /// The context is too long, at the first try.
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
        10 => Just(Answered::WithText),
        4 => (1..3_usize).prop_map(Answered::WithCalls),
        2 => Just(Answered::WithAnError),
        2 => Just(Answered::CutOff),
        1 => Just(Answered::TooLong),
    ];
    (input, history, api(), reply).prop_map(|(input, history, api, reply)| Turn { input, history, api, reply })
}

fn mode() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&crate::long::MODES[..])
}

/// A mode to compact in, and what happens.
pub(super) fn lives() -> impl Strategy<Value = (&'static str, Vec<Step>)> {
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

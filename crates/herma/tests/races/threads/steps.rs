//! What can happen to conversations.

use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// One thing that happens. Numbers choose among what there is.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// One turn.
    Turn(Turn),
    /// Two turns on one slug at one time.
    AtOnce { slug: usize, ways: [Way; 2] },
    /// A turn on a slug while somebody deletes its conversation.
    DeletedMeanwhile { slug: usize, way: Way, second: bool },
    /// A process is killed so many milliseconds after a turn was sent to it.
    KilledDuring(Turn, u64),
    /// A process is killed in the middle of an answer that nobody waits for.
    KilledInBackground { turn: Turn, shown: bool },
    /// A process is killed while it has nothing to do.
    Killed { second: bool },
    /// Somebody asks for a compaction.
    Compact { name: Name, second: bool, mode: &'static str },
    /// Somebody adds items: their sizes, and whether they are a user's.
    AddItems { name: Name, second: bool, items: Vec<(usize, bool)> },
    /// Somebody deletes something that was said.
    DeleteItem { name: Name, line: usize, second: bool },
    /// Somebody deletes a response.
    DeleteResponse { response: usize, second: bool },
    /// Somebody deletes a conversation, by any name.
    DeleteConversation { name: Name, second: bool },
}

/// A turn as a client makes it and as the model answers it.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) name: Name,
    pub(super) api: Api,
    pub(super) second: bool,
    pub(super) stored: bool,
    /// About how many tokens the question has.
    pub(super) size: usize,
    pub(super) answer: Answer,
}

/// How one of two turns at one time is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) api: Api,
    pub(super) second: bool,
    /// After the last response, if there is one, and not by the slug.
    pub(super) chained: bool,
}

/// What a client calls a conversation by. The newest things have the lowest numbers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Name {
    /// A name of its own.
    Slug(usize),
    /// An id that begins with `conv_`.
    Handle(usize),
    /// The id of a session or of a run.
    Session(usize),
    /// A response; by chat it is a name like any other.
    Response(usize),
    /// Nothing.
    None,
}

/// Where a turn comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Response,
    StreamedResponse,
    Background,
    Chat,
    StreamedChat,
    Run,
}

impl Api {
    pub(super) fn makes_a_response(self) -> bool {
        matches!(self, Self::Response | Self::StreamedResponse | Self::Background)
    }
}

/// What the model does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It says about so many tokens.
    Text(usize),
    /// It refuses.
    Error,
    /// It breaks off after the first words.
    CutOff,
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 5..40_usize, 2 => 40..400_usize, 1 => 400..600_usize]
}

/// The newest ones most of all.
fn recent() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0_usize), 3 => 1..4_usize, 2 => any::<usize>()]
}

fn slug() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0_usize), 2 => Just(1), 1 => Just(2)]
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![
        6 => slug().prop_map(Name::Slug),
        2 => recent().prop_map(Name::Handle),
        2 => recent().prop_map(Name::Session),
        4 => recent().prop_map(Name::Response),
        3 => (1..6_usize).prop_map(Name::Response),
        1 => Just(Name::None),
    ]
}

fn api() -> impl Strategy<Value = Api> {
    prop_oneof![
        4 => Just(Api::Response),
        3 => Just(Api::StreamedResponse),
        2 => Just(Api::Background),
        2 => Just(Api::Chat),
        1 => Just(Api::StreamedChat),
        2 => Just(Api::Run),
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let answer = prop_oneof![8 => size().prop_map(Answer::Text), 1 => Just(Answer::Error), 1 => Just(Answer::CutOff)];
    (name(), api(), any::<bool>(), proptest::bool::weighted(0.8), size(), answer)
        .prop_map(|(name, api, second, stored, size, answer)| Turn { name, api, second, stored, size, answer })
}

fn way() -> impl Strategy<Value = Way> {
    (api(), any::<bool>(), any::<bool>()).prop_map(|(api, second, chained)| Way { api, second, chained })
}

fn mode() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&crate::long::MODES[..])
}

/// A mode to compact in, and what happens.
pub(super) fn lives() -> impl Strategy<Value = (&'static str, Vec<Step>)> {
    let items = proptest::collection::vec((5..100_usize, any::<bool>()), 1..4);
    let step = prop_oneof![
        24 => turn().prop_map(Step::Turn),
        4 => (slug(), [way(), way()]).prop_map(|(slug, ways)| Step::AtOnce { slug, ways }),
        2 => (slug(), way(), any::<bool>()).prop_map(|(slug, way, second)| Step::DeletedMeanwhile { slug, way, second }),
        2 => (turn(), 0..16_u64).prop_map(|(turn, delay)| Step::KilledDuring(turn, delay)),
        2 => (turn(), any::<bool>()).prop_map(|(turn, shown)| Step::KilledInBackground { turn, shown }),
        1 => any::<bool>().prop_map(|second| Step::Killed { second }),
        3 => (name(), any::<bool>(), mode()).prop_map(|(name, second, mode)| Step::Compact { name, second, mode }),
        3 => (name(), any::<bool>(), items).prop_map(|(name, second, items)| Step::AddItems { name, second, items }),
        4 => (name(), 0..12_usize, any::<bool>()).prop_map(|(name, line, second)| Step::DeleteItem { name, line, second }),
        3 => (recent(), any::<bool>()).prop_map(|(response, second)| Step::DeleteResponse { response, second }),
        2 => (name(), any::<bool>()).prop_map(|(name, second)| Step::DeleteConversation { name, second }),
    ];
    (mode(), proptest::collection::vec(step, 15..=40))
}

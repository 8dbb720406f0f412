//! The random steps.

use proptest::prelude::{Just, Strategy, any, prop_oneof};

/// One step. Numbers select among the conversations, responses and lines that exist.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Turn(Turn),
    /// Two turns with the same slug at the same time.
    AtOnce {
        slug: usize,
        turns: [ConcurrentTurn; 2],
    },
    /// A turn with a slug while another client deletes its conversation.
    DeletedDuring {
        slug: usize,
        turn: ConcurrentTurn,
        second: bool,
    },
    /// A process is killed so many milliseconds after a turn was sent to it.
    KilledDuring(Turn, u64),
    /// A process is killed in the middle of a background response or a run.
    KilledInBackground {
        turn: Turn,
        shown: bool,
    },
    /// An idle process is killed.
    Killed {
        second: bool,
    },
    /// A client asks for a compaction.
    Compact {
        name: Name,
        second: bool,
        mode: &'static str,
    },
    /// A client adds items: their sizes, and whether they have the role `user`.
    AddItems {
        name: Name,
        second: bool,
        items: Vec<(usize, bool)>,
    },
    /// A client deletes one message.
    DeleteItem {
        name: Name,
        line: usize,
        second: bool,
    },
    /// A client deletes a response.
    DeleteResponse {
        response: usize,
        second: bool,
    },
    /// A client deletes a conversation, by any of its names.
    DeleteConversation {
        name: Name,
        second: bool,
    },
}

/// What the client sends, and what the model answers.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) name: Name,
    pub(super) api: Api,
    pub(super) second: bool,
    pub(super) stored: bool,
    /// About how many tokens the question has.
    pub(super) size: usize,
    pub(super) answer: ModelAnswer,
}

/// One of two turns at the same time.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConcurrentTurn {
    pub(super) api: Api,
    pub(super) second: bool,
    /// Names the last response, if there is one, instead of the slug.
    pub(super) chained: bool,
}

/// How a client names a conversation. Number 0 is the newest.
#[derive(Debug, Clone, Copy)]
pub(super) enum Name {
    /// A name that the client chose.
    Slug(usize),
    /// An id that begins with `conv_`.
    Handle(usize),
    /// The id of a session or of a run.
    Session(usize),
    /// The id of a response. Chat sends it as a session id.
    Response(usize),
    /// The request names no conversation.
    None,
}

/// The API that a turn is sent to.
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

/// What the model server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelAnswer {
    /// A text of about so many tokens.
    Text(usize),
    /// Status 400.
    Error,
    /// The first piece; then the connection breaks.
    CutOff,
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 5..40_usize, 2 => 40..400_usize, 1 => 400..600_usize]
}

/// A number that selects one of the newest most often.
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
    let answer = prop_oneof![
        8 => size().prop_map(ModelAnswer::Text),
        1 => Just(ModelAnswer::Error),
        1 => Just(ModelAnswer::CutOff),
    ];
    (name(), api(), any::<bool>(), proptest::bool::weighted(0.8), size(), answer)
        .prop_map(|(name, api, second, stored, size, answer)| Turn { name, api, second, stored, size, answer })
}

fn concurrent_turn() -> impl Strategy<Value = ConcurrentTurn> {
    (api(), any::<bool>(), any::<bool>()).prop_map(|(api, second, chained)| ConcurrentTurn { api, second, chained })
}

fn mode() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&crate::long::MODES[..])
}

/// A compaction mode and a list of steps.
pub(super) fn scenarios() -> impl Strategy<Value = (&'static str, Vec<Step>)> {
    let items = proptest::collection::vec((5..100_usize, any::<bool>()), 1..4);
    let step = prop_oneof![
        24 => turn().prop_map(Step::Turn),
        4 => (slug(), [concurrent_turn(), concurrent_turn()]).prop_map(|(slug, turns)| Step::AtOnce { slug, turns }),
        2 => (slug(), concurrent_turn(), any::<bool>())
            .prop_map(|(slug, turn, second)| Step::DeletedDuring { slug, turn, second }),
        2 => (turn(), 0..16_u64).prop_map(|(turn, delay)| Step::KilledDuring(turn, delay)),
        2 => (turn(), any::<bool>()).prop_map(|(turn, shown)| Step::KilledInBackground { turn, shown }),
        1 => any::<bool>().prop_map(|second| Step::Killed { second }),
        3 => (name(), any::<bool>(), mode()).prop_map(|(name, second, mode)| Step::Compact { name, second, mode }),
        3 => (name(), any::<bool>(), items).prop_map(|(name, second, items)| Step::AddItems { name, second, items }),
        4 => (name(), 0..12_usize, any::<bool>())
            .prop_map(|(name, line, second)| Step::DeleteItem { name, line, second }),
        3 => (recent(), any::<bool>()).prop_map(|(response, second)| Step::DeleteResponse { response, second }),
        2 => (name(), any::<bool>()).prop_map(|(name, second)| Step::DeleteConversation { name, second }),
    ];
    (mode(), proptest::collection::vec(step, 15..=40))
}

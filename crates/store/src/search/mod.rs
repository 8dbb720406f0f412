//! Search: what can be asked, what is answered, and the rules about text that every engine shares.
//!
//! Found is what was said, before and after compactions, and titles. Summaries are not looked through: they repeat what was said. A message is found
//! where it was said, so of a branch only what is its own. An engine may look at candidates in any way it likes, but a text is a hit only if
//! [`Wanted::rate`] says so.

mod fold;
mod matching;
mod query;
mod said;
mod snippet;

use herma_model::{ConversationId, MessageId, MessageStatus, Role, SessionId, SessionKey, SessionKind, Timestamp};

pub use fold::{Word, fold, is_cjk, words};
pub use matching::{Manner, Score};
pub use query::{BadQuery, Term, TermWord, Wanted};
pub use said::text_of;
pub use snippet::{SnippetPiece, snippet};

/// Where to look. What is absent does not matter.
#[derive(Debug, Clone, Default)]
pub struct SearchFilter {
    /// Only sessions of this kind; of a title, the head.
    pub kind: Option<SessionKind>,
    /// Only conversations of this origin.
    pub origin_kind: Option<SessionKind>,
    /// Only conversations that a person sees, or only the others.
    pub user_facing: Option<bool>,
    /// Only conversations from this door.
    pub source: Option<String>,
    /// Only conversations with this session key.
    pub session_key: Option<SessionKey>,
    /// Only what was said by this role. Titles were said by nobody.
    pub role: Option<Role>,
    /// Only from this moment on.
    pub since: Option<Timestamp>,
    /// Only before this moment.
    pub until: Option<Timestamp>,
}

/// How often a conversation may be in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// Once, with its best hit.
    #[default]
    Conversation,
    /// With every hit.
    None,
}

/// A search.
#[derive(Debug, Clone)]
pub struct Search {
    /// What for.
    pub wanted: Wanted,
    /// Where.
    pub filter: SearchFilter,
    /// How often a conversation may be in the answer.
    pub grouping: Grouping,
    /// Only after this hit of the same search.
    pub after: Option<SearchCursor>,
    /// Most hits.
    pub limit: usize,
    /// The clock; what is recent is better. Of a further page, the first one's.
    pub now: Timestamp,
}

/// What a search goes through, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Titles.
    Titles,
    /// Messages that have it as words.
    Words,
    /// Messages that have it only as parts of words.
    Parts,
}

/// Where a page ended. The keys are the engine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchCursor {
    /// The first page's clock.
    pub now: Timestamp,
    /// The newest message when the first page was read.
    pub newest: i64,
    /// What it was going through.
    pub stage: Stage,
    /// The newest row of the part that was being ranked.
    pub top: i64,
    /// The row before the oldest of that part; absent if it was not begun.
    pub bottom: Option<i64>,
    /// The last hit of the page.
    pub last: (Score, i64),
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The conversation.
    pub conversation: ConversationId,
    /// The session in which it was said; of a title, the head.
    pub session: SessionId,
    /// That session's kind.
    pub kind: SessionKind,
    /// The conversation's first session.
    pub root: SessionId,
    /// The conversation's origin.
    pub origin_kind: SessionKind,
    /// The conversation's title.
    pub title: Option<String>,
    /// The message; absent if the title was found.
    pub message: Option<HitMessage>,
    /// When it was said; of a title, when the conversation was made.
    pub created_at: Timestamp,
    /// The part of the text that shows why.
    pub snippet: Vec<SnippetPiece>,
}

/// A message that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitMessage {
    /// Its id.
    pub id: MessageId,
    /// Who said it.
    pub role: Role,
    /// Whether all of it is there.
    pub status: MessageStatus,
    /// Whether a rewind has taken it out of the model's view.
    pub rewound: bool,
}

/// A page of hits.
#[derive(Debug, Clone, Default)]
pub struct SearchPage {
    /// The hits, best first.
    pub hits: Vec<Hit>,
    /// Where the next page begins; absent on the last one. A page may have less than was asked for and still not be the last: then looking further
    /// would have taken too long.
    pub next: Option<SearchCursor>,
}

/// A score with age taken into account: after a month three quarters of it are left, after long half.
pub fn with_age(score: Score, created_at: Timestamp, now: Timestamp) -> Score {
    const MONTH: i64 = 30 * 24 * 60 * 60;
    let age = i64::try_from(now.since(created_at).as_secs()).unwrap_or(i64::MAX / 2);
    Score(score.0 / 2 + score.0 / 2 * MONTH / (MONTH + age.min(1000 * MONTH)))
}

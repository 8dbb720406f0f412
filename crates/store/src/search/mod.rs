//! Search: the query, the result, and the rules about text that every engine shares.
//!
//! A search finds messages, also those before a compaction, and titles. It does not look at summaries, because they
//! repeat messages. A message is found only in the conversation that stores it, so a branch's inherited messages are
//! not found in the branch. An engine may choose candidates in any way, but a text is a hit only if [`Wanted::rate`]
//! gives it a score.

mod fold;
mod matching;
mod query;
mod snippet;
mod text;

use herma_model::{ConversationId, MessageId, MessageStatus, Role, SessionId, SessionKey, SessionKind, Timestamp};

pub use fold::{Word, fold, is_cjk, words};
pub use matching::{Manner, Score};
pub use query::{BadQuery, Term, TermWord, Wanted};
pub use snippet::{SnippetPiece, snippet};
pub use text::text_of;

/// Which messages and titles to search. A field that is `None` does not filter.
#[derive(Debug, Clone, Default)]
pub struct SearchFilter {
    /// Only sessions of this kind. A title belongs to the head.
    pub kind: Option<SessionKind>,
    /// Only conversations of this origin.
    pub origin_kind: Option<SessionKind>,
    /// Only user-facing conversations, or only the others.
    pub user_facing: Option<bool>,
    /// Only conversations from this front door.
    pub source: Option<String>,
    /// Only conversations with this session key.
    pub session_key: Option<SessionKey>,
    /// Only messages of this role. Titles have no role.
    pub role: Option<Role>,
    /// Only from this time on.
    pub since: Option<Timestamp>,
    /// Only before this time.
    pub until: Option<Timestamp>,
}

/// How often a conversation may be in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// Once, with its best hit.
    #[default]
    Conversation,
    /// Once for every hit.
    None,
}

/// A search.
#[derive(Debug, Clone)]
pub struct Search {
    /// The query.
    pub wanted: Wanted,
    /// The filter.
    pub filter: SearchFilter,
    /// How often a conversation may be in the result.
    pub grouping: Grouping,
    /// Only hits after this one of the same search.
    pub after: Option<SearchCursor>,
    /// The maximum number of hits.
    pub limit: usize,
    /// The clock: recent messages rank higher. A further page uses the clock of the first page.
    pub now: Timestamp,
}

/// The stages of a search, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Titles.
    Titles,
    /// Messages that match as whole words.
    Words,
    /// Messages that match only as parts of words.
    Parts,
}

/// Where a page ended. The keys are the engine's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchCursor {
    /// The clock of the first page.
    pub now: Timestamp,
    /// The newest message when the first page was read.
    pub newest: i64,
    /// The stage that the page was in.
    pub stage: Stage,
    /// The newest row of the range that was being ranked.
    pub top: i64,
    /// The row before the oldest of that range; `None` if the range was not begun.
    pub bottom: Option<i64>,
    /// The last hit of the page.
    pub last: (Score, i64),
}

/// A message or title that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The conversation.
    pub conversation: ConversationId,
    /// The session of the message; for a title, the head.
    pub session: SessionId,
    /// That session's kind.
    pub kind: SessionKind,
    /// The conversation's first session.
    pub root: SessionId,
    /// The conversation's origin.
    pub origin_kind: SessionKind,
    /// The conversation's title.
    pub title: Option<String>,
    /// The message; `None` if the title matches.
    pub message: Option<HitMessage>,
    /// When the message was written; for a title, when the conversation was made.
    pub created_at: Timestamp,
    /// The part of the text that matches.
    pub snippet: Vec<SnippetPiece>,
}

/// A message that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitMessage {
    /// Its id.
    pub id: MessageId,
    /// Its role.
    pub role: Role,
    /// Whether it is complete.
    pub status: MessageStatus,
    /// Whether a rewind has removed it from the model's view.
    pub rewound: bool,
}

/// A page of hits.
#[derive(Debug, Clone, Default)]
pub struct SearchPage {
    /// The hits, best first.
    pub hits: Vec<Hit>,
    /// Where the next page begins; `None` on the last page. A page with fewer hits than `limit` may still not be the
    /// last: then the scan limit was reached.
    pub next: Option<SearchCursor>,
}

/// Lowers a score by age: three quarters of it are left after a month, half after a long time.
pub fn with_age(score: Score, created_at: Timestamp, now: Timestamp) -> Score {
    const MONTH: i64 = 30 * 24 * 60 * 60;
    let age = i64::try_from(now.since(created_at).as_secs()).unwrap_or(i64::MAX / 2);
    Score(score.0 / 2 + score.0 / 2 * MONTH / (MONTH + age.min(1000 * MONTH)))
}

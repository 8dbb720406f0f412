//! Decides whether a candidate is a hit: the caller may see it, it passes the filter, and its text matches.

use std::cell::RefCell;

use herma_model::{ConversationId, MessageId, MessageStatus, Role, Seq, SessionId, SessionKey, SessionKind, Timestamp};
use herma_store::Scope;
use herma_store::search::{self, Hit, HitMessage, Manner, Score, Search, Stage};
use rusqlite::{CachedStatement, Connection, Row, params};

use super::inheriting;
use crate::failure::{StoreResult, Translate};
use crate::{rewinds, rows};

/// A hit with its score, before it is read as a whole.
pub(super) struct Rated {
    pub(super) score: Score,
    /// The key of the message, or of the conversation if its title matched.
    pub(super) key: i64,
    /// The conversation in which it is found. If its own was deleted, this is a branch that inherits it.
    pub(super) conversation: i64,
    /// Whether it is found in a branch that inherits it.
    is_inherited: bool,
}

/// Messages `m` with their session and conversation, without summaries. `?1` is the key of a candidate. The others are
/// the tenant and the filter: kind, origin kind, source, session key, role, since, until.
const MESSAGES: &str = "m.payload, m.created_at, c.pk, c.session_key, c.origin_kind, c.deleted, m.seq FROM messages m
     CROSS JOIN sessions s ON s.pk = m.session_pk CROSS JOIN conversations c ON c.pk = s.conversation_pk
     WHERE m.pk = ?1 AND m.compaction_pk IS NULL AND (?7 IS NULL OR m.role = ?7)
     AND (?8 IS NULL OR m.created_at >= ?8)
     AND (?9 IS NULL OR m.created_at < ?9) AND c.tenant_pk = ?2";

/// Titles, with the conversation and its head.
const TITLES: &str = "c.title, c.created_at, c.pk, c.session_key, c.origin_kind, 0, 0 FROM conversations c
     CROSS JOIN sessions s ON s.pk = c.head_pk
     WHERE c.pk = ?1 AND c.title IS NOT NULL AND c.title_is_excerpt = 0 AND ?7 IS NULL
     AND (?8 IS NULL OR c.created_at >= ?8)
     AND (?9 IS NULL OR c.created_at < ?9) AND c.tenant_pk = ?2 AND c.deleted = 0";

/// Conditions for both. Messages of a deleted conversation pass here; they are checked in the branch that inherits
/// them.
const EITHER: &str = "(c.deleted = 1 OR (?3 IS NULL OR s.kind = ?3) AND (?4 IS NULL OR c.origin_kind = ?4)
     AND (?5 IS NULL OR c.source = ?5) AND (?6 IS NULL OR c.session_key = ?6))";

/// Checks candidates for one search.
pub(super) struct Matcher<'a> {
    connection: &'a Connection,
    scope: &'a Scope,
    search: &'a Search,
    now: Timestamp,
    /// The statements that read titles and messages, with everything but the key bound. There are hundreds of
    /// candidates in a search.
    titles: RefCell<Option<CachedStatement<'a>>>,
    messages: RefCell<Option<CachedStatement<'a>>>,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(connection: &'a Connection, scope: &'a Scope, search: &'a Search, now: Timestamp) -> Self {
        Self { connection, scope, search, now, titles: RefCell::default(), messages: RefCell::default() }
    }

    /// The score of a candidate in a stage, if it is a hit there. A hit as words is not a hit as parts again.
    pub(super) fn rate(&self, stage: Stage, key: i64) -> StoreResult<Option<Rated>> {
        let Some(row) = self.read(stage, key)? else { return Ok(None) };
        let folded = match stage {
            Stage::Titles => search::fold(&row.text),
            Stage::Words | Stage::Parts => search::fold(&search::text_of(&row.text)),
        };
        let wanted = &self.search.wanted;
        let as_words = wanted.rate(&folded, Manner::Words);
        let score = match stage {
            Stage::Titles => as_words.or_else(|| wanted.rate(&folded, Manner::Parts)),
            Stage::Words => as_words,
            Stage::Parts if as_words.is_some() => None,
            Stage::Parts => wanted.rate(&folded, Manner::Parts),
        };
        let rated = |score| Rated { score, key, conversation: row.conversation, is_inherited: row.is_deleted };
        Ok(score.map(|score| rated(search::with_age(score, row.created_at, self.now))))
    }

    /// The row of a candidate, if the caller asked for it and may see it.
    fn read(&self, stage: Stage, key: i64) -> StoreResult<Option<CandidateRow>> {
        let filter = &self.search.filter;
        let (statement, columns) = match stage {
            Stage::Titles => (&self.titles, TITLES),
            Stage::Words | Stage::Parts => (&self.messages, MESSAGES),
        };
        let mut statement = statement.borrow_mut();
        let select = match &mut *statement {
            Some(select) => select,
            none => none.insert(self.prepare(columns).translated()?),
        };
        let candidate = read_candidate(select, key).translated()?;
        match candidate {
            Some(row) if row.is_deleted => {
                let inheriting_branch =
                    inheriting::first(self.connection, row.conversation, row.seq, self.scope, filter)?;
                Ok(inheriting_branch.map(|inheriting_branch| CandidateRow { conversation: inheriting_branch, ..row }))
            }
            row => Ok(row.filter(|row| {
                self.scope.keys.sees(row.session_key.as_ref())
                    && filter.user_facing.is_none_or(|wanted| row.origin_kind.is_user_facing() == wanted)
            })),
        }
    }

    /// The statement that reads a candidate, with the tenant and the filter bound.
    fn prepare(&self, columns: &str) -> rusqlite::Result<CachedStatement<'a>> {
        let filter = &self.search.filter;
        let mut select = self.connection.prepare_cached(&format!("SELECT {columns} AND {EITHER}"))?;
        select.raw_bind_parameter(2, self.scope.tenant.0)?;
        select.raw_bind_parameter(3, filter.kind.map(SessionKind::as_str))?;
        select.raw_bind_parameter(4, filter.origin_kind.map(SessionKind::as_str))?;
        select.raw_bind_parameter(5, filter.source.as_deref())?;
        select.raw_bind_parameter(6, filter.session_key.as_ref().map(SessionKey::as_str))?;
        select.raw_bind_parameter(7, filter.role.map(Role::as_str))?;
        select.raw_bind_parameter(8, filter.since.map(|since| since.0))?;
        select.raw_bind_parameter(9, filter.until.map(|until| until.0))?;
        Ok(select)
    }

    /// The deleted conversations whose messages may be found in this one.
    pub(super) fn sources(&self, conversation: i64) -> StoreResult<Vec<i64>> {
        inheriting::sources(self.connection, conversation)
    }

    /// A hit as the caller gets it.
    pub(super) fn show(&self, stage: Stage, rated: &Rated) -> StoreResult<Hit> {
        let read = |row: &Row<'_>| self.hit(stage, row);
        let shown = match stage {
            Stage::Titles => self
                .connection
                .prepare_cached(
                    "SELECT c.id, s.id, s.kind, c.origin_kind, c.title, c.created_at, c.title, r.id FROM conversations c
                     CROSS JOIN sessions s ON s.pk = c.head_pk CROSS JOIN sessions r ON r.pk = c.root_pk
                     WHERE c.pk = ?1",
                )
                .and_then(|mut select| select.query_row([rated.conversation], read)),
            Stage::Words | Stage::Parts => self
                .connection
                .prepare_cached(
                    "SELECT c.id, s.id, s.kind, c.origin_kind, c.title, m.created_at, m.payload, r.id, m.id, m.role,
                     m.status, m.seq, c.rewinds
                     FROM messages m
                     CROSS JOIN conversations c ON c.pk = ?2 CROSS JOIN sessions s ON s.pk = iif(?3, c.root_pk,
                     m.session_pk)
                     CROSS JOIN sessions r ON r.pk = c.root_pk WHERE m.pk = ?1",
                )
                .and_then(|mut select| {
                    select.query_row(params![rated.key, rated.conversation, rated.is_inherited], read)
                }),
        };
        shown.translated()
    }

    fn hit(&self, stage: Stage, row: &Row<'_>) -> rusqlite::Result<Hit> {
        let stored = row.get_ref(6)?.as_str()?;
        let (text, message) = match stage {
            Stage::Titles => (stored.to_owned(), None),
            Stage::Words | Stage::Parts => {
                let id = MessageId::from_uuid(rows::uuid(row, 8)?);
                let (role, status) = (rows::word(row, 9, Role::parse)?, rows::word(row, 10, MessageStatus::parse)?);
                let rewound = rewinds::read(row, 12)?.hide(Seq(row.get(11)?));
                (search::text_of(stored), Some(HitMessage { id, role, status, rewound }))
            }
        };
        let wanted = &self.search.wanted;
        let manner = match stage {
            Stage::Titles if wanted.rate(&search::fold(&text), Manner::Words).is_none() => Manner::Parts,
            Stage::Titles | Stage::Words => Manner::Words,
            Stage::Parts => Manner::Parts,
        };
        Ok(Hit {
            conversation: ConversationId::from_uuid(rows::uuid(row, 0)?),
            session: SessionId::from_name(row.get_ref(1)?.as_str()?),
            root: SessionId::from_name(row.get_ref(7)?.as_str()?),
            kind: rows::word(row, 2, SessionKind::parse)?,
            origin_kind: rows::word(row, 3, SessionKind::parse)?,
            title: row.get(4)?,
            message,
            created_at: Timestamp(row.get(5)?),
            snippet: search::snippet(&text, wanted, manner),
        })
    }
}

fn read_candidate(select: &mut CachedStatement<'_>, key: i64) -> rusqlite::Result<Option<CandidateRow>> {
    select.raw_bind_parameter(1, key)?;
    let mut rows = select.raw_query();
    rows.next()?.map(CandidateRow::read).transpose()
}

struct CandidateRow {
    text: String,
    created_at: Timestamp,
    conversation: i64,
    session_key: Option<SessionKey>,
    origin_kind: SessionKind,
    is_deleted: bool,
    seq: i64,
}

impl CandidateRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            text: row.get(0)?,
            created_at: Timestamp(row.get(1)?),
            conversation: row.get(2)?,
            session_key: rows::optional_word(row, 3, |key| SessionKey::parse(key).ok())?,
            origin_kind: rows::word(row, 4, SessionKind::parse)?,
            is_deleted: row.get(5)?,
            seq: row.get(6)?,
        })
    }
}

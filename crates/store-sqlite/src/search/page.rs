//! A page of hits.
//!
//! A search has three stages: titles, messages that match as words, and messages that match only as parts of words.
//! Each stage goes from the newest row back, one window of candidates at a time, and ranks the hits of that window. So
//! a common word costs no more than a rare one, and later pages reach every hit.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use herma_store::Scope;
use herma_store::search::{Grouping, Manner, Score, Search, SearchCursor, SearchPage, Stage};
use rusqlite::Connection;

use super::candidates::{Candidates, Window};
use super::matcher::{Matcher, Rated};
use crate::failure::{StoreResult, Translate};

/// How long a page may take if it has hits, and if it has none yet. After that it ends early.
const TIME_LIMIT: Duration = Duration::from_millis(50);
const TIME_LIMIT_WITHOUT_HITS: Duration = Duration::from_secs(2);

/// How many rows of the index one window covers. If it finds nothing within `QUICKLY`, the next window covers four
/// times as many.
const STRETCH: i64 = 1_000_000;
const QUICKLY: Duration = Duration::from_millis(10);

/// A position before every hit.
const BEFORE_ALL: (Score, i64) = (Score(i64::MAX), i64::MAX);

/// The best hits after the cursor.
pub(crate) fn page(connection: &Connection, scope: &Scope, search: &Search) -> StoreResult<SearchPage> {
    let start = match search.after {
        Some(cursor) => cursor,
        None => SearchCursor {
            now: search.now,
            newest: newest(connection)?,
            stage: Stage::Titles,
            top: newest_title(connection)?,
            bottom: None,
            last: BEFORE_ALL,
        },
    };
    let run = SearchRun {
        candidates: Candidates::new(connection, scope.tenant, &search.wanted)?,
        matcher: Matcher::new(connection, scope, search, start.now),
        search,
    };
    run.page(start)
}

/// The key of the newest message.
pub(crate) fn newest(connection: &Connection) -> StoreResult<i64> {
    first(connection, "SELECT coalesce(max(pk), 0) FROM messages")
}

fn newest_title(connection: &Connection) -> StoreResult<i64> {
    first(connection, "SELECT coalesce(max(pk), 0) FROM conversations")
}

fn first(connection: &Connection, sql: &str) -> StoreResult<i64> {
    connection.prepare_cached(sql).and_then(|mut select| select.query_row([], |row| row.get(0))).translated()
}

struct SearchRun<'a> {
    candidates: Candidates<'a>,
    matcher: Matcher<'a>,
    search: &'a Search,
}

impl SearchRun<'_> {
    fn page(&self, start: SearchCursor) -> StoreResult<SearchPage> {
        let began = Instant::now();
        let mut at = start;
        let mut page = SearchPage::default();
        let mut last = start;
        let mut stretch = STRETCH;
        loop {
            let window_began = Instant::now();
            let window = match at.bottom {
                Some(bottom) => self.candidates.same_window(at.stage, at.top, bottom)?,
                None => self.candidates.window(at.stage, at.top, at.top.saturating_sub(stretch).max(0))?,
            };
            let is_quickly_empty = window.keys.is_empty() && window_began.elapsed() < QUICKLY;
            stretch = if is_quickly_empty { stretch.saturating_mul(4) } else { STRETCH };
            for hit in self.fresh(&at, &window)? {
                if page.hits.len() == self.search.limit {
                    page.next = Some(last);
                    return Ok(page);
                }
                page.hits.push(self.matcher.show(at.stage, &hit)?);
                last = SearchCursor { bottom: Some(window.bottom), last: (hit.score, hit.key), ..at };
            }
            let Some(next) = self.next(&at, &window) else { return Ok(page) };
            if next.stage != at.stage {
                stretch = STRETCH;
            }
            at = next;
            let time_limit = if page.hits.is_empty() { TIME_LIMIT_WITHOUT_HITS } else { TIME_LIMIT };
            if began.elapsed() > time_limit {
                page.next = Some(at);
                return Ok(page);
            }
        }
    }

    /// Where to continue after a window.
    fn next(&self, at: &SearchCursor, window: &Window) -> Option<SearchCursor> {
        let further = SearchCursor { bottom: None, last: BEFORE_ALL, ..*at };
        if window.bottom > 0 {
            return Some(SearchCursor { top: window.bottom, ..further });
        }
        match at.stage {
            Stage::Titles => Some(SearchCursor { stage: Stage::Words, top: at.newest, ..further }),
            Stage::Words if self.search.wanted.has_parts() => {
                Some(SearchCursor { stage: Stage::Parts, top: at.newest, ..further })
            }
            Stage::Words | Stage::Parts => None,
        }
    }

    /// The hits of a window that were not shown yet, best first.
    fn fresh(&self, at: &SearchCursor, window: &Window) -> StoreResult<Vec<Rated>> {
        let mut hits = Vec::new();
        for key in &window.keys {
            hits.extend(self.matcher.rate(at.stage, *key)?);
        }
        hits.sort_by_key(|hit| Reverse((hit.score, hit.key)));
        if self.search.grouping == Grouping::Conversation {
            let mut known = HashSet::new();
            hits.retain(|hit| known.insert(hit.conversation));
        }
        hits.retain(|hit| (hit.score, hit.key) < at.last);
        if self.search.grouping == Grouping::None {
            return Ok(hits);
        }
        // One more than a page: the additional hit shows that there is a next page.
        let mut fresh = Vec::new();
        for hit in hits {
            if fresh.len() > self.search.limit {
                break;
            }
            if !self.was_shown(at, hit.conversation)? {
                fresh.push(hit);
            }
        }
        Ok(fresh)
    }

    /// Whether a conversation has a hit in an earlier window.
    fn was_shown(&self, at: &SearchCursor, conversation: i64) -> StoreResult<bool> {
        let above = |stage: Stage| match stage {
            _ if stage < at.stage => 0,
            _ => at.top,
        };
        if at.stage > Stage::Titles && self.matcher.rate(Stage::Titles, conversation)?.is_some() {
            return Ok(true);
        }
        let mut holders = self.matcher.sources(conversation)?;
        holders.push(conversation);
        for (stage, manner) in [(Stage::Words, Manner::Words), (Stage::Parts, Manner::Parts)] {
            if stage > at.stage || above(stage) >= at.newest {
                continue;
            }
            for holder in &holders {
                for key in self.candidates.of_conversation(*holder, manner, at.newest, above(stage))? {
                    if self.matcher.rate(stage, key)?.is_some_and(|hit| hit.conversation == conversation) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

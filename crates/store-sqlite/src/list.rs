//! A page of a list: merges ranges of indexes in one order.
//!
//! Every range is read along an index. Conditions without an index (a title, a front door, the caller's session keys)
//! are checked row by row, up to a limit. At the limit the page ends early, and the next page continues there.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use herma_model::alias::Namespace;
use herma_model::{ConversationId, SessionKind, Timestamp};
use herma_store::{ConversationRow, Cursor, ListFilter, ListOrder, ListView, Page, Scope};
use rusqlite::{Connection, Rows, params_from_iter};

use crate::failure::{StoreResult, Translate};
use crate::listing::{Conversations, Selection};
use crate::ranges::{Family, Range, ResolvedFilter};
use crate::{rows, snapshot};

/// The largest number of conversations and sessions that one page examines, not counting those before the last skipped
/// row. That takes about a millisecond.
const MOST_EXAMINED: usize = 1_000;

/// A page of conversations or of sessions.
pub(crate) fn page(connection: &Connection, scope: &Scope, filter: &ListFilter) -> StoreResult<Page<ConversationRow>> {
    let nothing = Page { rows: Vec::new(), next: None };
    let find = |alias| -> StoreResult<Option<Family>> {
        let found = snapshot::visible(connection, scope, alias, Namespace::Session)?;
        Ok(found.map(|(state, session)| Family { conversation: state.key, session }))
    };
    let parent = filter.parent.as_ref().map(find).transpose()?;
    let root = filter.root.as_ref().map(find).transpose()?;
    if parent == Some(None) || root == Some(None) {
        return Ok(nothing);
    }
    let resolved = ResolvedFilter::new(scope, filter, parent.flatten(), root.flatten());
    let ranges = Range::all(&resolved);
    let mut statements = Vec::with_capacity(ranges.len());
    for range in &ranges {
        statements.push(connection.prepare_cached(&range.sql).translated()?);
    }
    let mut walks = Vec::with_capacity(ranges.len());
    for (statement, range) in statements.iter_mut().zip(ranges) {
        let rows = statement.query(params_from_iter(range.values)).translated()?;
        walks.push(Walk::begin(rows, &resolved)?);
    }
    let mut builder = PageBuilder {
        connection,
        conversations: Conversations::of(connection, &scope.keys)?,
        resolved: &resolved,
        rows: Vec::new(),
        to_skip: filter.skip.unwrap_or(0),
        last: None,
        examined: 0,
    };
    while let Some(next) = nearest(&mut walks, filter.order) {
        let candidate = next.step(&resolved)?;
        if builder.take(candidate)? {
            break;
        }
    }
    Ok(builder.page())
}

/// A conversation with its position in the list.
#[derive(Clone, Copy)]
struct ListCandidate {
    at: i64,
    key: i64,
    is_wanted: bool,
}

/// One range, read up to its next conversation.
struct Walk<'a> {
    rows: Rows<'a>,
    next: Option<ListCandidate>,
}

impl<'a> Walk<'a> {
    fn begin(rows: Rows<'a>, resolved: &ResolvedFilter<'_>) -> StoreResult<Self> {
        let mut walk = Self { rows, next: None };
        walk.step(resolved)?;
        Ok(walk)
    }

    /// Returns the next conversation and reads the following one.
    fn step(&mut self, resolved: &ResolvedFilter<'_>) -> StoreResult<Option<ListCandidate>> {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(ListCandidate { key: row.get(0)?, at: row.get(1)?, is_wanted: resolved.matches(row)? })
        };
        let row = self.rows.next().translated()?;
        let following = row.map(read).transpose().translated()?;
        Ok(std::mem::replace(&mut self.next, following))
    }
}

/// The range whose next conversation comes first.
fn nearest<'w, 'a>(walks: &'w mut [Walk<'a>], order: ListOrder) -> Option<&'w mut Walk<'a>> {
    let compare = |one: &ListCandidate, other: &ListCandidate| {
        let ascending = (one.at, one.key).cmp(&(other.at, other.key));
        if order.is_ascending() { ascending } else { ascending.reverse() }
    };
    let live = walks.iter_mut().filter(|walk| walk.next.is_some());
    live.min_by(|one, other| match (&one.next, &other.next) {
        (Some(one), Some(other)) => compare(one, other),
        _ => Ordering::Equal,
    })
}

/// The page that is being filled.
struct PageBuilder<'a> {
    connection: &'a Connection,
    conversations: Conversations<'a>,
    resolved: &'a ResolvedFilter<'a>,
    rows: Vec<(Cursor, ConversationRow)>,
    /// How many rows are still to be skipped.
    to_skip: usize,
    /// The last position that was examined.
    last: Option<Cursor>,
    examined: usize,
}

impl PageBuilder<'_> {
    /// Adds the rows of a conversation. Returns whether the page is full or the scan limit is reached.
    fn take(&mut self, candidate: Option<ListCandidate>) -> StoreResult<bool> {
        let Some(ListCandidate { at, key, is_wanted }) = candidate else { return Ok(true) };
        self.examined += 1;
        let place = Cursor { at: Timestamp(at), row: key, session: 0 };
        if is_wanted && self.has_id(key)? {
            match self.resolved.filter.view {
                ListView::Conversations => {
                    if !self.skips() {
                        self.rows.push((place, self.conversations.by_key(key)?));
                    }
                }
                ListView::Sessions => {
                    if self.take_sessions(place)?.is_break() {
                        return Ok(true);
                    }
                }
            }
        }
        self.last = Some(place);
        Ok(self.is_done())
    }

    /// Whether a conversation has an id like the one that the filter asks for.
    fn has_id(&self, key: i64) -> StoreResult<bool> {
        const SQL: &str = "SELECT c.id, EXISTS (SELECT 1 FROM sessions s WHERE s.conversation_pk = c.pk
                 AND (substr(s.id, 1, length(?2)) = ?2 OR substr(s.id, -length(?2)) = ?2))
             FROM conversations c WHERE c.pk = ?1";
        let Some(part) = &self.resolved.filter.id_part else { return Ok(true) };
        let read = |row: &rusqlite::Row<'_>| {
            let id = ConversationId::from_uuid(rows::uuid(row, 0)?).to_string();
            Ok(row.get(1)? || id.starts_with(part) || id.ends_with(part))
        };
        self.connection.prepare_cached(SQL).and_then(|mut select| select.query_row((key, part), read)).translated()
    }

    /// Adds the sessions of a conversation. Breaks if the page is full before the last of them.
    fn take_sessions(&mut self, place: Cursor) -> StoreResult<ControlFlow<()>> {
        let ListFilter { order, after, .. } = self.resolved.filter;
        let begun = after.filter(|after| after.row == place.row).map_or(0, |after| after.session);
        let selection = Selection { conversation: place.row, is_ascending: order.is_ascending(), begun };
        let mut conversation = None;
        selection.each(self.connection, |session| {
            if self.is_done() {
                return Ok(ControlFlow::Break(()));
            }
            self.examined += 1;
            let place = Cursor { session: session.key, ..place };
            if self.resolved.has(self.connection, &session)? && !self.skips() {
                let whole = match conversation.take() {
                    Some(whole) => whole,
                    None => self.conversations.by_key(place.row)?,
                };
                self.rows.push((place, session.row(conversation.insert(whole).clone())));
            }
            self.last = Some(place);
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Whether the next row is skipped. Rows that were examined before it do not count for the scan limit.
    fn skips(&mut self) -> bool {
        let skips = self.to_skip > 0;
        if skips {
            self.to_skip -= 1;
            self.examined = 0;
        }
        skips
    }

    fn is_done(&self) -> bool {
        self.rows.len() > self.resolved.filter.limit || self.scan_limit_reached()
    }

    /// Whether the scan limit is reached. A client that pages by row count needs at least one row to make progress, so
    /// then an empty page continues.
    fn scan_limit_reached(&self) -> bool {
        let is_counted = self.resolved.filter.skip.is_some();
        self.examined >= MOST_EXAMINED && (!is_counted || !self.rows.is_empty())
    }

    fn page(mut self) -> Page<ConversationRow> {
        let limit = self.resolved.filter.limit;
        let next = if self.rows.len() > limit {
            self.rows.truncate(limit);
            self.rows.last().map(|(place, _)| *place).or(self.resolved.filter.after)
        } else {
            self.last.filter(|_| self.scan_limit_reached())
        };
        Page { rows: self.rows.into_iter().map(|(_, row)| row).collect(), next }
    }
}

/// The kinds of origin that a conversation can have.
pub(crate) const ORIGINS: [SessionKind; 4] =
    [SessionKind::Main, SessionKind::Auxiliary, SessionKind::Background, SessionKind::Branch];

//! Turns a list filter into ranges of indexes, and into a check of each row in them.

use herma_model::{KeyScope, SessionKey, SessionKind};
use herma_store::{Archived, ListFilter, ListOrder, ListView, Scope};
use rusqlite::types::Value;
use rusqlite::{Connection, Row};

use crate::failure::{StoreResult, Translate};
use crate::list::ORIGINS;
use crate::listing::OneSession;
use crate::rows;

/// A conversation whose relatives are listed, and the session by which it was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) conversation: i64,
    pub(crate) session: Option<i64>,
}

/// A list filter whose names were looked up.
pub(crate) struct ResolvedFilter<'a> {
    scope: &'a Scope,
    pub(crate) filter: &'a ListFilter,
    parent: Option<Family>,
    root: Option<Family>,
    title: Option<String>,
}

/// The columns that [`ResolvedFilter::matches`] checks, after the key and the time by which the list is ordered.
const CHECKED_COLUMNS: &str = "c.origin_kind, c.previous_pk IS NOT NULL, c.archived, c.session_key, c.source, \
     c.updated_at, c.title, c.answered, c.cwd";

impl<'a> ResolvedFilter<'a> {
    pub(crate) fn new(scope: &'a Scope, filter: &'a ListFilter, parent: Option<Family>, root: Option<Family>) -> Self {
        Self { scope, filter, parent, root, title: filter.title.as_deref().map(str::to_lowercase) }
    }

    /// Whether a conversation of a range passes the filter.
    pub(crate) fn matches(&self, row: &Row<'_>) -> rusqlite::Result<bool> {
        let filter = self.filter;
        let origin = rows::word(row, 2, SessionKind::parse)?;
        let has_gone_on: bool = row.get(3)?;
        let of_kind = |kind| if has_gone_on { kind == SessionKind::Continuation } else { kind == origin };
        let is_archived: bool = row.get(4)?;
        let updated_at: i64 = row.get(7)?;
        let is_wanted = self.has_origin(origin)
            && (filter.view == ListView::Sessions || filter.kind.is_none_or(of_kind))
            && match filter.archived {
                Archived::Hidden => !is_archived,
                Archived::Only => is_archived,
                Archived::Any => true,
            }
            && answered(filter.answered, row)?
            && filter.since.is_none_or(|since| since.0 <= updated_at)
            && filter.until.is_none_or(|until| updated_at < until.0);
        if !is_wanted {
            return Ok(false);
        }
        let key = row.get_ref(5)?.as_str_or_null()?;
        if filter.session_key.as_ref().is_some_and(|wanted| Some(wanted.as_str()) != key)
            || (self.scope.keys != KeyScope::All && !rows::sees(&self.scope.keys, row, 5)?)
        {
            return Ok(false);
        }
        if let Some(source) = &filter.source
            && row.get_ref(6)?.as_str()? != source
        {
            return Ok(false);
        }
        if let Some(cwd) = &filter.cwd
            && row.get_ref(10)?.as_str_or_null()? != Some(cwd)
        {
            return Ok(false);
        }
        let title = row.get_ref(8)?.as_str_or_null()?;
        Ok(self.title.as_ref().is_none_or(|part| title.is_some_and(|title| title.to_lowercase().contains(part))))
    }

    /// Whether a session of such a conversation passes the filter.
    pub(crate) fn has(&self, connection: &Connection, session: &OneSession) -> StoreResult<bool> {
        if self.filter.kind.is_some_and(|kind| kind != session.facts.kind) {
            return Ok(false);
        }
        match (self.parent, session.parent) {
            (None, _) => Ok(true),
            (Some(_), None) => Ok(false),
            (Some(Family { session: Some(named), .. }), Some(parent)) => Ok(parent == named),
            (Some(Family { conversation, .. }), Some(parent)) => connection
                .prepare_cached("SELECT 1 FROM sessions WHERE pk = ?1 AND conversation_pk = ?2")
                .and_then(|mut select| select.exists([parent, conversation]))
                .translated(),
        }
    }

    fn has_origin(&self, origin: SessionKind) -> bool {
        self.filter.origin_kind.is_none_or(|wanted| wanted == origin)
            && self.filter.user_facing.is_none_or(|wanted| wanted == origin.is_user_facing())
    }

    /// The parts of indexes that cover the list: one conversation, its children, a session key, or every kind of
    /// origin.
    fn parts(&self) -> Vec<IndexPart> {
        let filter = self.filter;
        let tenant = Value::Integer(self.scope.tenant.0);
        let own = |family: Family| IndexPart::new("", "c.pk = ?", vec![Value::Integer(family.conversation)]);
        if let Some(root) = self.root {
            return vec![own(root)];
        }
        if let Some(parent) = self.parent {
            let children = vec![Value::Integer(parent.conversation)];
            let mut parts = vec![IndexPart::new("conversations_by_parent", "c.parent_pk = ?", children)];
            if filter.view == ListView::Sessions {
                parts.push(own(parent));
            }
            return parts;
        }
        if let Some(key) = &filter.session_key {
            let values = vec![tenant, Value::Text(SessionKey::as_str(key).to_owned())];
            return vec![IndexPart::new("conversations_by_key", "c.tenant_pk = ? AND c.session_key = ?", values)];
        }
        let indexes: &[(&str, &str)] = match (filter.kind, filter.archived) {
            _ if filter.order.is_by_creation() => &[("conversations_by_age", "")],
            (Some(SessionKind::Continuation), _) => &[("conversations_gone_on", " AND c.previous_pk IS NOT NULL")],
            (_, Archived::Hidden) => &[NOT_ARCHIVED],
            (_, Archived::Only) => &[ARCHIVED],
            (_, Archived::Any) => &[NOT_ARCHIVED, ARCHIVED],
        };
        let of_kind = |origin: &&SessionKind| {
            self.has_origin(**origin)
                && filter.kind.is_none_or(|kind| kind == **origin || kind == SessionKind::Continuation)
        };
        let mut parts = Vec::new();
        for origin in ORIGINS.iter().filter(of_kind) {
            for (index, clause) in indexes {
                // The origin is part of the SQL text, so that each origin has a cached statement of its own.
                let origin = origin.as_str();
                let clause = format!("c.tenant_pk = ? AND c.origin_kind = '{origin}' AND c.deleted = 0{clause}");
                parts.push(IndexPart::new(index, &clause, vec![tenant.clone()]));
            }
        }
        parts
    }
}

/// Whether a row has an answer or not, as the filter asks.
fn answered(wanted: Option<bool>, row: &Row<'_>) -> rusqlite::Result<bool> {
    match wanted {
        Some(wanted) => Ok(row.get::<_, bool>(9)? == wanted),
        None => Ok(true),
    }
}

const NOT_ARCHIVED: (&str, &str) = ("conversations_by_change", " AND c.archived = 0");
const ARCHIVED: (&str, &str) = ("conversations_put_away", " AND c.archived = 1");

/// A part of an index.
#[derive(Clone)]
struct IndexPart {
    index: String,
    clause: String,
    values: Vec<Value>,
}

impl IndexPart {
    fn new(index: &str, clause: &str, values: Vec<Value>) -> Self {
        let index = if index.is_empty() { String::new() } else { format!(" INDEXED BY {index}") };
        Self { index, clause: clause.to_owned(), values }
    }

    fn and<const N: usize>(mut self, clause: &str, values: [Value; N]) -> Self {
        self.clause.push_str(clause);
        self.values.extend(values);
        self
    }
}

/// One range of an index, in the order of the list and after its cursor.
pub(crate) struct Range {
    pub(crate) sql: String,
    pub(crate) values: Vec<Value>,
}

impl Range {
    /// All ranges that together cover the list.
    pub(crate) fn all(resolved: &ResolvedFilter<'_>) -> Vec<Self> {
        let Some(after) = resolved.filter.after else {
            return resolved.parts().into_iter().map(|part| Self::of(resolved.filter, part)).collect();
        };
        // Two ranges: rows with the same time as the cursor, and rows beyond it. With one condition for both, SQLite
        // would read all rows of that time again.
        let order = resolved.filter.order;
        let (at, beyond) = (moment(order), if order.is_ascending() { ">" } else { "<" });
        // A page of sessions may have ended in the middle of a conversation.
        let or_same = if after.session == 0 { "" } else { "=" };
        let mut ranges = Vec::new();
        for part in resolved.parts() {
            let last = [after.at.0, after.row].map(Value::Integer);
            let same = part.clone().and(&format!(" AND {at} = ? AND c.pk {beyond}{or_same} ?"), last);
            let further = part.and(&format!(" AND {at} {beyond} ?"), [Value::Integer(after.at.0)]);
            ranges.extend([same, further].map(|part| Self::of(resolved.filter, part)));
        }
        ranges
    }

    fn of(filter: &ListFilter, mut part: IndexPart) -> Self {
        let order = filter.order;
        let (at, direction) = (moment(order), if order.is_ascending() { "ASC" } else { "DESC" });
        // The cursor replaces the time bound on its side, because it is the stricter one. With both, SQLite might begin
        // at the wrong one.
        let is_begun = filter.after.is_some();
        for (clause, bound, is_passed) in [
            (" AND c.updated_at >= ?", filter.since, is_begun && order.is_ascending()),
            (" AND c.updated_at < ?", filter.until, is_begun && !order.is_ascending()),
        ] {
            if let Some(bound) = bound.filter(|_| !order.is_by_creation() && !is_passed) {
                part = part.and(clause, [Value::Integer(bound.0)]);
            }
        }
        let IndexPart { index, clause, values } = part;
        let sql = format!(
            "SELECT c.pk, {at}, {CHECKED_COLUMNS} FROM conversations c{index} WHERE {clause}
             ORDER BY {at} {direction}, c.pk {direction}"
        );
        Self { sql, values }
    }
}

/// The column by which a list is ordered.
fn moment(order: ListOrder) -> &'static str {
    if order.is_by_creation() { "c.created_at" } else { "c.updated_at" }
}

#[cfg(test)]
mod tests {
    use herma_model::{KeyScope, TenantId, Timestamp};
    use herma_store::Cursor;

    use super::*;
    use crate::migrations;

    /// How SQLite reads the ranges of a list.
    fn plans(filter: &ListFilter, family: Option<Family>) -> Vec<String> {
        let mut connection = Connection::open_in_memory().unwrap();
        migrations::run(&mut connection).unwrap();
        let scope = Scope { tenant: TenantId(1), keys: KeyScope::All, expected: None };
        let wanted = ResolvedFilter::new(&scope, filter, family, None);
        let mut plans = Vec::new();
        for range in Range::all(&wanted) {
            let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", range.sql)).unwrap();
            let values = rusqlite::params_from_iter(range.values);
            let steps: Vec<String> =
                explain.query_map(values, |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap();
            plans.push(steps.join("; "));
        }
        plans
    }

    #[test]
    fn every_page_is_a_range_of_an_index() {
        let after = Some(Cursor { at: Timestamp(1), row: 1, session: 0 });
        for order in [
            ListOrder::UpdatedDescending,
            ListOrder::UpdatedAscending,
            ListOrder::CreatedDescending,
            ListOrder::CreatedAscending,
        ] {
            for view in [ListView::Conversations, ListView::Sessions] {
                for after in [None, after, after.map(|after| Cursor { session: 1, ..after })] {
                    let all = ListFilter { order, view, after, limit: 10, ..ListFilter::default() };
                    let since = Some(Timestamp(1));
                    for filter in [
                        all.clone(),
                        ListFilter { kind: Some(SessionKind::Continuation), ..all.clone() },
                        ListFilter { origin_kind: Some(SessionKind::Background), ..all.clone() },
                        ListFilter { user_facing: Some(false), archived: Archived::Any, ..all.clone() },
                        ListFilter { archived: Archived::Only, source: Some("cli".to_owned()), ..all.clone() },
                        ListFilter { since, until: Some(Timestamp(9)), title: Some("sea".to_owned()), ..all.clone() },
                    ] {
                        for plan in plans(&filter, None) {
                            assert!(plan.starts_with("SEARCH c USING INDEX"), "{filter:?}: {plan}");
                            assert!(!plan.contains("TEMP B-TREE"), "{filter:?}: {plan}");
                            let seeks = ["_at=? AND pk", "_at<?", "_at>?"];
                            assert!(after.is_none() || seeks.iter().any(|seek| plan.contains(seek)), "{plan}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_key_and_a_parent_are_ranges_of_their_own() {
        let after = Some(Cursor { at: Timestamp(1), row: 1, session: 0 });
        let all = ListFilter { after, limit: 10, ..ListFilter::default() };
        let family = Family { conversation: 1, session: None };
        let keyed = ListFilter { session_key: SessionKey::parse("mine").ok(), ..all.clone() };
        for (filter, family, index) in
            [(keyed, None, "conversations_by_key"), (all, Some(family), "conversations_by_parent")]
        {
            let plans = plans(&filter, family);
            assert_eq!(plans.len(), 2);
            for plan in plans {
                assert!(plan.starts_with(&format!("SEARCH c USING INDEX {index}")), "{plan}");
                assert!(!plan.contains("TEMP B-TREE"), "{plan}");
            }
        }
    }

    #[test]
    fn a_list_reads_only_the_kinds_that_it_shows() {
        let all = ListFilter { limit: 10, ..ListFilter::default() };
        for (filter, ranges) in [
            (all.clone(), 4),
            (ListFilter { archived: Archived::Any, ..all.clone() }, 8),
            (ListFilter { user_facing: Some(true), ..all.clone() }, 2),
            (ListFilter { kind: Some(SessionKind::Branch), ..all.clone() }, 1),
            (ListFilter { kind: Some(SessionKind::Main), user_facing: Some(false), ..all.clone() }, 0),
            (ListFilter { kind: Some(SessionKind::Continuation), user_facing: Some(false), ..all }, 2),
        ] {
            assert_eq!(plans(&filter, None).len(), ranges, "{filter:?}");
        }
    }
}

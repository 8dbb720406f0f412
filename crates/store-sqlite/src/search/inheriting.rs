//! Messages of deleted conversations: they belong to the branches that inherit them. A search finds such a message in
//! one of them: the first that the caller asked for and may see.

use herma_model::SessionKind;
use herma_store::Scope;
use herma_store::search::SearchFilter;
use rusqlite::{Connection, Row};

use crate::failure::{StoreResult, Translate};
use crate::lineage::Segment;
use crate::rows;

/// The first branch that inherits a place of a deleted conversation, directly or through deleted branches.
pub(super) fn first(
    connection: &Connection,
    conversation: i64,
    seq: i64,
    scope: &Scope,
    filter: &SearchFilter,
) -> StoreResult<Option<i64>> {
    let mut select = connection
        .prepare_cached(
            "SELECT c.pk, c.deleted, c.session_key, c.source, c.origin_kind FROM sessions s
             CROSS JOIN sessions b ON b.base_session_pk = s.pk AND b.kind = 'branch' AND b.base_seq >= ?2
             CROSS JOIN conversations c ON c.pk = b.conversation_pk WHERE s.conversation_pk = ?1 ORDER BY c.pk",
        )
        .translated()?;
    let mut sources = vec![conversation];
    while let Some(source) = sources.pop() {
        let mut inheriting = select.query([source, seq]).translated()?;
        while let Some(branch) = inheriting.next().translated()? {
            let key: i64 = branch.get(0).translated()?;
            if branch.get(1).translated()? {
                sources.push(key);
            } else if is_wanted(branch, scope, filter).translated()? {
                return Ok(Some(key));
            }
        }
    }
    Ok(None)
}

/// The deleted conversations that a conversation inherits from, up to the first one that is not deleted.
pub(super) fn sources(connection: &Connection, conversation: i64) -> StoreResult<Vec<i64>> {
    let mut is_deleted = connection.prepare_cached("SELECT deleted FROM conversations WHERE pk = ?1").translated()?;
    let mut sources = Vec::new();
    let mut branch = conversation;
    while let Some(source) = Segment::inherited(connection, branch)? {
        branch = source.conversation;
        if !is_deleted.query_row([branch], |row| row.get(0)).translated()? {
            break;
        }
        sources.push(branch);
    }
    Ok(sources)
}

/// Whether the caller asked for a branch and may see it. Inherited places are before the branch's own sessions, so
/// their kind is `branch`.
fn is_wanted(row: &Row<'_>, scope: &Scope, filter: &SearchFilter) -> rusqlite::Result<bool> {
    let key = row.get_ref(2)?.as_str_or_null()?;
    let source = row.get_ref(3)?.as_str_or_null()?;
    let origin = rows::word(row, 4, SessionKind::parse)?;
    Ok(rows::sees(&scope.keys, row, 2)?
        && filter.session_key.as_ref().is_none_or(|wanted| key == Some(wanted.as_str()))
        && filter.source.as_deref().is_none_or(|wanted| source == Some(wanted))
        && filter.kind.is_none_or(|wanted| wanted == SessionKind::Branch)
        && filter.origin_kind.is_none_or(|wanted| wanted == origin)
        && filter.user_facing.is_none_or(|wanted| wanted == origin.is_user_facing()))
}

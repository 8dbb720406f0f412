//! Finds conversations by the history that their clients have seen.
//!
//! A completed turn stores the digest of the history at its end, and a key of its last message. The index has both, so
//! a history is found by one look-up, however long it is.

use herma_model::{
    ConversationId, Digest, HistoryDigest, HistoryEnd, HistoryReader, SessionKey, SessionKind, TenantId, TurnId,
};
use herma_store::{FoundHistory, HistoryScope, MOST_RESEMBLING, Resembling, Scope};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, Rows, params, params_from_iter};

use crate::failure::{StoreResult, Translate};
use crate::lineage::Lineage;
use crate::rows::{self, ConversationState, MESSAGE, MESSAGE_WIDTH};
use crate::{rewinds, snapshot};

/// How many turns with the same history are compared. Many people may begin with the same words, and go on.
const MOST_ALIKE: usize = 1_000;

/// How many turns that ended with the same message are looked at.
const MOST_ANSWERS: usize = 64;

/// The key of a message in the index. Equal messages under different session keys have different keys.
fn key(tenant: TenantId, session_key: Option<&str>, last: Digest) -> i64 {
    let kind: &[u8] = if session_key.is_some() { b"key" } else { b"" };
    let session_key = session_key.unwrap_or_default().as_bytes();
    let Digest(digest) = Digest::of_fields([&tenant.0.to_le_bytes()[..], kind, session_key, &last.0]);
    i64::from_le_bytes([digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7]])
}

/// What a turn stores of the history at its end.
pub(crate) struct HistoryColumns {
    pub(crate) key: i64,
    pub(crate) history: [u8; 16],
}

impl HistoryColumns {
    /// For a turn of a conversation with this session key.
    pub(crate) fn of(tenant: TenantId, session_key: Option<&str>, end: HistoryEnd) -> Self {
        Self { key: key(tenant, session_key, end.last), history: end.history.0.0 }
    }
}

/// A digest in a column.
pub(crate) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<HistoryDigest>> {
    Ok(row.get::<_, Option<[u8; 16]>>(column)?.map(|digest| HistoryDigest(Digest(digest))))
}

/// The history at the end of a completed turn.
pub(crate) fn of_turn(connection: &Connection, turn: TurnId) -> StoreResult<Option<HistoryDigest>> {
    connection
        .prepare_cached("SELECT history FROM turns WHERE id = ?1")
        .and_then(|mut select| select.query_row([turn.uuid().as_bytes()], |row| read(row, 0)).optional())
        .map(Option::flatten)
        .translated()
}

/// The history at a place with which a turn ends.
pub(crate) fn at(connection: &Connection, session: i64, place: i64) -> StoreResult<Option<[u8; 16]>> {
    connection
        .prepare_cached(
            "SELECT t.history FROM messages m JOIN turns t ON t.pk = m.turn_pk
             WHERE m.session_pk = ?1 AND m.seq = ?2 AND t.last_seq = ?2",
        )
        .and_then(|mut select| select.query_row([session, place], |row| row.get(0)).optional())
        .map(Option::flatten)
        .translated()
}

/// The conditions on `conversations c` that a search has in common with others.
fn is_wanted(scope: &Scope, within: &HistoryScope, row: &Row<'_>, first: usize) -> rusqlite::Result<bool> {
    let session_key = row.get_ref(first)?.as_str_or_null()?;
    let kind = rows::word(row, first + 1, SessionKind::parse)?;
    let is_kind = match within.kind {
        SessionKind::Main => kind.is_user_facing(),
        other => kind == other,
    };
    let is_key = session_key == within.session_key.as_ref().map(SessionKey::as_str);
    Ok(is_kind && is_key && rows::sees(&scope.keys, row, first)?)
}

/// Finds the conversation that a history continues.
pub(crate) fn find(
    connection: &Connection,
    scope: &Scope,
    within: &HistoryScope,
    ends: &[HistoryEnd],
) -> StoreResult<Option<FoundHistory>> {
    for (nth, end) in ends.iter().enumerate() {
        if let Some(Candidate { conversation, turn, branch, .. }) = alike(connection, scope, within, *end)? {
            let is_inherited = branch.is_some();
            return Ok(Some(FoundHistory {
                end: nth,
                conversation: branch.unwrap_or(conversation),
                turn,
                is_inherited,
            }));
        }
    }
    Ok(None)
}

/// A turn that ended with the history.
struct Candidate {
    conversation: ConversationId,
    turn: TurnId,
    /// Whether the conversation ends there and takes turns.
    is_at_its_end: bool,
    /// The newest branch that ends there too, takes turns, and has had none yet.
    branch: Option<ConversationId>,
}

const CANDIDATE: &str = "c.id, t.id, c.history IS t.history AND c.ended_at IS NULL, c.session_key, c.origin_kind";

/// The newest branch without turns that ends with the history of `t`. It is newer than the conversation of `t`. The
/// plus keeps SQLite from taking an index of all conversations of the tenant.
const BRANCH: &str = "SELECT b.id FROM conversations b WHERE b.history = t.history AND b.origin_kind = 'branch'
     AND b.turn_count = 0 AND +b.tenant_pk = c.tenant_pk AND b.session_key IS c.session_key AND b.deleted = 0
     AND b.provisional = 0 AND b.ended_at IS NULL";

const IS_CANDIDATE: &str = "t.tenant_pk = ?1 AND t.state = 'completed' AND t.attempt_of IS NULL AND c.deleted = 0
     AND c.provisional = 0";

impl Candidate {
    fn read(row: &Row<'_>, scope: &Scope, within: &HistoryScope) -> rusqlite::Result<Option<Self>> {
        if !is_wanted(scope, within, row, 3)? {
            return Ok(None);
        }
        let branch = match (within.kind, row.get_ref(5)?) {
            (SessionKind::Main, ValueRef::Blob(_)) => Some(ConversationId::from_uuid(rows::uuid(row, 5)?)),
            _ => None,
        };
        Ok(Some(Self {
            conversation: ConversationId::from_uuid(rows::uuid(row, 0)?),
            turn: TurnId::from_uuid(rows::uuid(row, 1)?),
            is_at_its_end: row.get(2)?,
            branch,
        }))
    }
}

/// Of the turns that ended with a history, the newest one with which its conversation or a branch ends. If there is
/// none, the newest.
fn alike(
    connection: &Connection,
    scope: &Scope,
    within: &HistoryScope,
    end: HistoryEnd,
) -> StoreResult<Option<Candidate>> {
    let session_key = within.session_key.as_ref().map(SessionKey::as_str);
    let (key, history) = (key(scope.tenant, session_key, end.last), &end.history.0.0);
    match within.chat {
        None => connection
            .prepare_cached(&format!(
                "SELECT {CANDIDATE}, ({BRANCH} ORDER BY b.pk DESC LIMIT 1)
                 FROM turns t JOIN conversations c ON c.pk = t.conversation_pk
                 WHERE t.history_key = ?2 AND t.history = ?3 AND {IS_CANDIDATE}
                 ORDER BY t.conversation_pk DESC LIMIT {MOST_ALIKE}"
            ))
            .and_then(|mut select| best(select.query(params![scope.tenant.0, key, history])?, scope, within)),
        Some(chat) => connection
            .prepare_cached(&format!(
                "SELECT {CANDIDATE}, ({BRANCH} AND b.chat = c.chat ORDER BY b.pk DESC LIMIT 1)
                 FROM conversations c CROSS JOIN turns t ON t.conversation_pk = c.pk
                 WHERE c.tenant_pk = ?1 AND c.chat = ?4 AND t.history_key = ?2 AND t.history = ?3 AND {IS_CANDIDATE}
                 ORDER BY c.pk DESC LIMIT {MOST_ALIKE}"
            ))
            .and_then(|mut select| {
                best(select.query(params![scope.tenant.0, key, history, &chat.0.0])?, scope, within)
            }),
    }
    .translated()
}

/// Reads no row after the first turn with which its conversation ends. Usually that is the first row.
fn best(mut rows: Rows<'_>, scope: &Scope, within: &HistoryScope) -> rusqlite::Result<Option<Candidate>> {
    let mut newest = None;
    while let Some(row) = rows.next()? {
        match Candidate::read(row, scope, within)? {
            Some(candidate) if candidate.is_at_its_end || candidate.branch.is_some() => return Ok(Some(candidate)),
            candidate => newest = newest.or(candidate),
        }
    }
    Ok(newest)
}

/// The turn in which a client added the last of these messages, if they are a whole transcript that waits for an
/// answer.
pub(crate) fn waiting(
    connection: &Connection,
    scope: &Scope,
    within: &HistoryScope,
    opening: HistoryEnd,
) -> StoreResult<Option<TurnId>> {
    let found = alike(connection, scope, within, opening)?;
    Ok(found.filter(|candidate| candidate.is_at_its_end).map(|candidate| candidate.turn))
}

/// Whether a search finds a conversation under its chat.
pub(crate) fn is_chat_known(connection: &Connection, scope: &Scope, within: &HistoryScope) -> StoreResult<bool> {
    Ok(within.chat.is_some() && !resembling(connection, scope, within, &Resembling::Chat)?.is_empty())
}

/// Finds conversations that may have a part of a history, the last used first.
pub(crate) fn resembling(
    connection: &Connection,
    scope: &Scope,
    within: &HistoryScope,
    wanted: &Resembling,
) -> StoreResult<Vec<ConversationId>> {
    let conditions = "c.deleted = 0 AND c.provisional = 0";
    let mut found: Vec<(i64, ConversationId)> = Vec::new();
    let mut take = |row: &Row<'_>| -> rusqlite::Result<()> {
        let id = ConversationId::from_uuid(rows::uuid(row, 1)?);
        if is_wanted(scope, within, row, 2)? && !found.iter().any(|(_, other)| *other == id) {
            found.push((row.get(0)?, id));
        }
        Ok(())
    };
    match (wanted, within.chat) {
        (Resembling::Answers(answers), _) => {
            let session_key = within.session_key.as_ref().map(SessionKey::as_str);
            let marks = vec!["?"; answers.len()].join(", ");
            let mut select = connection
                .prepare(&format!(
                    "SELECT c.updated_at, c.id, c.session_key, c.origin_kind, c.chat FROM turns t
                     JOIN conversations c ON c.pk = t.conversation_pk WHERE t.history_key IN ({marks})
                     AND t.state = 'completed' AND {conditions} LIMIT {MOST_ANSWERS}"
                ))
                .translated()?;
            let keys = answers.iter().map(|answer| key(scope.tenant, session_key, *answer));
            let mut found = select.query(params_from_iter(keys)).translated()?;
            while let Some(row) = found.next().translated()? {
                let chat: Option<[u8; 16]> = row.get(4).translated()?;
                if within.chat.is_none_or(|wanted| chat == Some(wanted.0.0)) {
                    take(row).translated()?;
                }
            }
        }
        (Resembling::Chat, Some(chat)) => {
            let mut select = connection
                .prepare_cached(&format!(
                    "SELECT c.updated_at, c.id, c.session_key, c.origin_kind FROM conversations c
                     WHERE c.tenant_pk = ?1 AND c.chat = ?2 AND {conditions} ORDER BY c.pk DESC LIMIT {MOST_ANSWERS}"
                ))
                .translated()?;
            let mut found = select.query(params![scope.tenant.0, &chat.0.0]).translated()?;
            while let Some(row) = found.next().translated()? {
                take(row).translated()?;
            }
        }
        (Resembling::Chat, None) => {}
    }
    found.sort_by_key(|(used, _)| std::cmp::Reverse(*used));
    found.truncate(MOST_RESEMBLING);
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// Computes the histories of a conversation whose turns were written without them.
pub(crate) fn compute(connection: &Connection, tenant: TenantId, conversation: i64) -> StoreResult<()> {
    let state = snapshot::load(connection, conversation)?;
    let turns = TurnEnds::read(connection, &state)?;
    let mut update =
        connection.prepare_cached("UPDATE turns SET history = ?2, history_key = ?3 WHERE pk = ?1").translated()?;
    let session_key = state.facts.session_key.as_ref().map(SessionKey::as_str);
    for (turn, end) in &turns.own {
        let values = params![turn, &end.history.0.0, key(tenant, session_key, end.last)];
        update.execute(values).translated()?;
    }
    connection
        .prepare_cached("UPDATE conversations SET history = ?2 WHERE pk = ?1")
        .and_then(|mut update| update.execute(params![conversation, &turns.last.0.0]))
        .map(drop)
        .translated()
}

/// Writes the keys of a conversation's turns again, after its session key has changed.
pub(crate) fn change_key(
    connection: &Connection,
    tenant: TenantId,
    conversation: i64,
    session_key: Option<&str>,
) -> StoreResult<()> {
    let ends: Vec<(i64, Digest)> = connection
        .prepare_cached(&format!(
            "SELECT {MESSAGE}, t.pk FROM sessions s JOIN messages m ON m.session_pk = s.pk
             JOIN turns t ON t.pk = m.turn_pk WHERE s.conversation_pk = ?1 AND m.seq = t.last_seq
             AND t.history_key IS NOT NULL"
        ))
        .and_then(|mut select| {
            let read = |row: &Row<'_>| Ok((row.get(MESSAGE_WIDTH)?, rows::message(row)?.said.digest_shown()));
            select.query_map([conversation], read)?.collect()
        })
        .translated()?;
    let mut update = connection.prepare_cached("UPDATE turns SET history_key = ?2 WHERE pk = ?1").translated()?;
    for (turn, last) in ends {
        update.execute([turn, key(tenant, session_key, last)]).translated()?;
    }
    Ok(())
}

/// The histories at the ends of a conversation's turns.
struct TurnEnds {
    /// Of the turns of its own, by their keys.
    own: Vec<(i64, HistoryEnd)>,
    /// At its end.
    last: HistoryDigest,
}

impl TurnEnds {
    /// Messages of turns without an answer, and messages that a rewind hides, do not count.
    fn read(connection: &Connection, state: &ConversationState) -> StoreResult<Self> {
        let lineage = Lineage::after(connection, state, 0)?;
        let hidden = rewinds::of(connection, state.key)?;
        let mut select = connection
            .prepare_cached(&format!(
                "SELECT {MESSAGE}, t.pk, m.seq = t.last_seq, t.conversation_pk FROM sessions s
                 JOIN messages m ON m.session_pk = s.pk JOIN turns t ON t.pk = m.turn_pk
                 WHERE s.conversation_pk = ?1 AND s.pk <= ?2 AND m.seq <= ?3 AND m.compaction_pk IS NULL
                 AND m.status = 'complete' AND t.state = 'completed' AND t.attempt_of IS NULL ORDER BY s.pk, m.seq"
            ))
            .translated()?;
        let mut reader = HistoryReader::after(HistoryDigest::EMPTY);
        let mut own = Vec::new();
        for segment in lineage.segments() {
            let mut said = select.query([segment.conversation, segment.session, segment.through]).translated()?;
            while let Some(row) = said.next().translated()? {
                let message = rows::message(row).translated()?;
                if hidden.hide(message.seq) {
                    continue;
                }
                reader.read(&message.said);
                let is_end: Option<bool> = row.get(MESSAGE_WIDTH + 1).translated()?;
                if is_end == Some(true) && row.get::<_, i64>(MESSAGE_WIDTH + 2).translated()? == state.key {
                    let end = HistoryEnd { history: reader.digest(), last: message.said.digest_shown() };
                    own.push((row.get(MESSAGE_WIDTH).translated()?, end));
                }
            }
        }
        Ok(Self { own, last: reader.digest() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrations;

    #[test]
    fn branches_without_turns_are_found_along_their_index() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrations::run(&mut connection).unwrap();
        let sql = format!("SELECT ({BRANCH}) FROM turns t JOIN conversations c ON c.pk = t.conversation_pk");
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps: Vec<String> = explain.query_map([], |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap();
        assert!(steps.iter().any(|step| step.contains("b USING INDEX conversations_without_turns")), "{steps:?}");
    }
}

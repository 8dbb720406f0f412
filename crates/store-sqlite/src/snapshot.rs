//! Looks a name up, and reads a conversation at one version.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use herma_model::alias::Namespace;
use herma_model::{
    Alias, HistoryDigest, Message, Payload, Rewinds, Seq, SessionFacts, SessionId, TenantId, TurnId, TurnName,
    TurnState, Unanswered,
};
use herma_store::{Counted, Extent, Scope, Snapshot, Version};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use crate::base::CompactionBase;
use crate::failure::{StoreResult, Translate};
use crate::lineage::{END, Lineage, Segment};
use crate::memories::recalls;
use crate::point::Point;
use crate::rows::{self, ConversationState, MESSAGE, MESSAGE_WIDTH, SESSION};
use crate::{admissions, current, histories, rewinds};

/// Where a name leads: the conversation, and the session if the name is a session's id.
pub(crate) fn find(
    connection: &Connection,
    tenant: TenantId,
    alias: &Alias,
    namespace: Namespace,
) -> StoreResult<Option<(ConversationState, Option<i64>)>> {
    if namespace == Namespace::Current {
        let current = current::find(connection, tenant, alias.as_str())?;
        return current.map(|conversation| Ok((load(connection, conversation)?, None))).transpose();
    }
    let turn = TurnName::parse(alias.as_str()).filter(|_| namespace == Namespace::Session);
    let found = match turn.map(|name| by_turn(connection, tenant, name)).transpose()?.flatten() {
        Some(conversation) => Some((conversation, None)),
        // Imported sessions may have names that look like turn ids.
        None => by_alias(connection, tenant, alias, namespace)?,
    };
    let Some((conversation, session)) = found else { return Ok(None) };
    Ok(Some((load(connection, conversation)?, session)))
}

fn by_alias(
    connection: &Connection,
    tenant: TenantId,
    alias: &Alias,
    namespace: Namespace,
) -> StoreResult<Option<(i64, Option<i64>)>> {
    connection
        .prepare_cached(
            "SELECT conversation_pk, session_pk FROM aliases WHERE tenant_pk = ?1 AND namespace = ?2 AND alias = ?3",
        )
        .and_then(|mut select| {
            select
                .query_row(params![tenant.0, namespace.as_str(), alias.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .translated()
}

/// The conversation of a turn, by any name of the turn. Its response id works only while the response can be fetched.
fn by_turn(connection: &Connection, tenant: TenantId, name: TurnName) -> StoreResult<Option<i64>> {
    let as_response = matches!(name, TurnName::Response(_));
    connection
        .prepare_cached(
            "SELECT c.pk FROM turns t JOIN conversations c ON c.pk = t.conversation_pk AND c.deleted = 0
             WHERE t.id = ?1 AND t.tenant_pk = ?2 AND t.kept >= ?3 AND t.attempt_of IS NULL",
        )
        .and_then(|mut select| {
            select.query_row(params![name.turn().uuid().as_bytes(), tenant.0, as_response], |row| row.get(0)).optional()
        })
        .translated()
}

/// A conversation that is known to exist.
pub(crate) fn load(connection: &Connection, conversation: i64) -> StoreResult<ConversationState> {
    static BY_KEY: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {STATE}, EXISTS (SELECT 1 FROM admissions a WHERE a.conversation_pk = c.pk AND a.fence > c.fence)
             FROM conversations c WHERE c.pk = ?1"
        )
    });
    connection
        .prepare_cached(&BY_KEY)
        .and_then(|mut select| {
            let mut sessions = Sessions::of(connection)?;
            select.query_row([conversation], |row| {
                Ok(ConversationState { has_admission: row.get(STATE_WIDTH)?, ..sessions.state(row)? })
            })
        })
        .translated()
}

/// Whether a name leads to a conversation in which a turn runs that is not written out, or may lead to such a turn.
pub(crate) fn has_admission(
    connection: &Connection,
    tenant: TenantId,
    alias: &Alias,
    namespace: Namespace,
) -> StoreResult<bool> {
    if !admissions::is_any(connection)? {
        return Ok(false);
    }
    let found = find(connection, tenant, alias, namespace)?;
    Ok(found.map_or_else(|| TurnName::parse(alias.as_str()).is_some(), |(state, _)| state.has_admission))
}

/// Columns of [`Sessions::state`], from `conversations c`.
pub(crate) const STATE: &str = "c.pk, c.version, c.fence, c.running_turn, c.waiting, c.next_seq, c.ended_at, \
     c.head_pk, c.root_pk, c.previous_pk, c.id, c.origin_kind, c.session_key, c.compaction_mode, c.compaction_count, \
     c.provisional, c.last_fence, c.changes";

/// How many columns [`STATE`] has.
pub(crate) const STATE_WIDTH: usize = 18;

/// Sessions that are known to exist, by their keys.
pub(crate) struct Sessions<'c>(CachedStatement<'c>);

impl<'c> Sessions<'c> {
    pub(crate) fn of(connection: &'c Connection) -> rusqlite::Result<Self> {
        static BY_KEY: LazyLock<String> = LazyLock::new(|| format!("SELECT {SESSION} FROM sessions s WHERE s.pk = ?1"));
        connection.prepare_cached(&BY_KEY).map(Self)
    }

    fn facts(&mut self, key: i64) -> rusqlite::Result<SessionFacts> {
        self.0.query_row([key], |row| rows::session(row, 0))
    }

    fn id(&mut self, key: i64) -> rusqlite::Result<SessionId> {
        self.0.query_row([key], |row| Ok(SessionId::from_name(row.get_ref(0)?.as_str()?)))
    }

    /// Reads [`STATE`] from the first columns of a row, then its sessions. One join of both would take SQLite three
    /// times as long.
    pub(crate) fn state(&mut self, row: &Row<'_>) -> rusqlite::Result<ConversationState> {
        let head_key: i64 = row.get(7)?;
        let head = self.facts(head_key)?;
        let root_key: i64 = row.get(8)?;
        let root = if root_key == head_key { head.id.clone() } else { self.id(root_key)? };
        let previous = match row.get::<_, Option<i64>>(9)? {
            Some(key) if key == root_key => Some(root.clone()),
            Some(key) => Some(self.id(key)?),
            None => None,
        };
        Ok(ConversationState {
            key: row.get(0)?,
            version: row.get(1)?,
            fence: row.get(2)?,
            running: row.get(3)?,
            waiting: row.get(4)?,
            next_seq: row.get(5)?,
            ended: row.get::<_, Option<i64>>(6)?.is_some(),
            head: head_key,
            has_admission: false,
            provisional: row.get(15)?,
            last_fence: row.get(16)?,
            changes: row.get(17)?,
            facts: Arc::new(rows::facts(row, 10, head, root, previous)?),
        })
    }
}

/// Where a name leads, if the caller may see it. [`herma_store::StoreError::VersionMismatch`] if the caller expects
/// another revision of the conversation.
pub(crate) fn visible(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    namespace: Namespace,
) -> StoreResult<Option<(ConversationState, Option<i64>)>> {
    let found = find(connection, scope.tenant, alias, namespace)?;
    let found = found.filter(|(state, _)| scope.keys.sees(state.facts.session_key.as_ref()));
    if let Some((state, _)) = &found {
        scope.check(state.facts.id, state.revision())?;
    }
    Ok(found)
}

/// Whether a client may give a name to something new.
pub(crate) enum NewName {
    /// It leads nowhere yet.
    Free,
    /// It leads to a conversation. That may be one that the caller cannot reach: a name is unique in its tenant.
    Taken,
    /// Only Herma gives names of this form.
    Reserved,
}

/// Whether a client may give this name to something new. The answer for a name of Herma's own form does not say whether
/// a conversation has it that the caller cannot reach.
pub(crate) fn may_be_given(connection: &Connection, scope: &Scope, alias: &Alias) -> StoreResult<NewName> {
    let found = find(connection, scope.tenant, alias, Namespace::Session)?;
    let is_seen = found.as_ref().is_some_and(|(state, _)| scope.keys.sees(state.facts.session_key.as_ref()));
    Ok(match found {
        _ if !alias.may_be_created() && !is_seen => NewName::Reserved,
        Some(_) => NewName::Taken,
        None => NewName::Free,
    })
}

/// Reads the conversation that a name leads to. The caller holds a read transaction.
pub(crate) fn open(
    connection: &Connection,
    scope: &Scope,
    alias: &Alias,
    namespace: Namespace,
    extent: Extent,
) -> StoreResult<Option<Snapshot>> {
    let Some((state, named)) = visible(connection, scope, alias, namespace)? else { return Ok(None) };
    read(connection, scope.tenant, state, named, extent)
}

/// Reads a conversation, whose session `named` the caller named.
pub(crate) fn read(
    connection: &Connection,
    tenant: TenantId,
    state: ConversationState,
    named: Option<i64>,
    extent: Extent,
) -> StoreResult<Option<Snapshot>> {
    let NextTurnContext { system, counted, auto_compaction_paused, rewrites, untitled, rewinds, history } =
        NextTurnContext::read(connection, state.key)?;
    let history = match extent {
        Extent::At(turn) => histories::of_turn(connection, turn)?,
        Extent::Completed | Extent::View | Extent::Whole | Extent::Session | Extent::Without(_) => history,
    };
    let range = ReadRange::of(connection, tenant, &state, named, extent, rewinds)?;
    let Some(ReadRange { last, compaction_base, rewinds }) = range else { return Ok(None) };
    let whole = extent == Extent::Whole || compaction_base.is_none();
    let (from, after) = compaction_base
        .filter(|_| !whole)
        .map_or((0, 0), |compaction_base| (compaction_base.tail, compaction_base.through));
    let lineage = Lineage::to(connection, &state, last, after)?;
    let ReadMessages { messages, rewound, first_turn } =
        ReadMessages::read(connection, &lineage, from, after, &rewinds)?;
    let FailedTurns { mut unanswered, mut begun_anew } = FailedTurns::read(connection, &lineage, first_turn, &rewinds)?;
    if !unanswered.is_empty() || !begun_anew.is_empty() {
        let read: HashSet<TurnId> = messages.iter().chain(&rewound).map(|message| message.turn).collect();
        unanswered.retain(|turn, _| read.contains(turn));
        begun_anew.retain(|turn, _| read.contains(turn));
    }
    let recall = match (&state.facts.session_key, messages.last()) {
        (Some(_), Some(last)) => recalls::of_turn(connection, last.turn)?.map(Arc::new),
        (None, _) | (_, None) => None,
    };
    // These extents are read for a branch that does not exist yet, so it has no history of its own.
    let is_to_be = matches!(extent, Extent::At(_) | Extent::Completed);
    Ok(Some(Snapshot {
        base: compaction_base.map(|compaction_base| compaction_base.base(connection)).transpose()?.map(Arc::new),
        messages,
        rewound,
        whole,
        counted: counted.filter(|_| matches!(extent, Extent::View | Extent::Whole)),
        auto_compaction_paused: auto_compaction_paused && !is_to_be,
        rewrites: if is_to_be { 0 } else { rewrites },
        untitled: untitled || is_to_be,
        unanswered,
        begun_anew,
        system,
        version: Version(state.version),
        ended: state.ended,
        history,
        recall,
        facts: state.facts,
    }))
}

/// Up to where a transcript is read, and the base that stands for its beginning.
struct ReadRange {
    /// The last part that is read.
    last: Segment,
    compaction_base: Option<CompactionBase>,
    /// The rewinds that had been made by then.
    rewinds: Rewinds,
}

impl ReadRange {
    fn of(
        connection: &Connection,
        tenant: TenantId,
        state: &ConversationState,
        named: Option<i64>,
        extent: Extent,
        rewinds: Rewinds,
    ) -> StoreResult<Option<Self>> {
        let session = match extent {
            Extent::At(turn) => {
                let end = Segment::up_to(connection, tenant, turn)?.filter(|end| end.conversation == state.key);
                return end.map(|end| Self::at(connection, end, end.session, &rewinds)).transpose();
            }
            Extent::Completed => {
                let Point { inherited, parent } = Point::end(connection, state)?;
                return Self::at(connection, inherited, parent, &rewinds).map(Some);
            }
            Extent::Session => named.unwrap_or(state.head),
            Extent::View | Extent::Whole | Extent::Without(_) => state.head,
        };
        let rewinds = match session == state.head {
            true => rewinds,
            false => rewinds.before(Seq(after_session(connection, session)?)),
        };
        let mut compaction_base = CompactionBase::shown(connection, session, &rewinds)?;
        if let Extent::Without(compaction) = extent {
            let Some(last) = compaction_base.filter(|last| last.id == compaction) else { return Ok(None) };
            compaction_base = last.beneath(connection)?;
        }
        Ok(Some(Self { last: Segment { conversation: state.key, session, through: END }, compaction_base, rewinds }))
    }

    /// The range when `last.through` was the last place. `session` knows which compaction was the base there.
    fn at(connection: &Connection, last: Segment, session: i64, rewinds: &Rewinds) -> StoreResult<Self> {
        let rewinds = rewinds.before(Seq(last.through));
        Ok(Self { last, compaction_base: CompactionBase::at(connection, session, last.through, &rewinds)?, rewinds })
    }
}

/// The place after a session's last message.
fn after_session(connection: &Connection, session: i64) -> StoreResult<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(seq), 0) + 1 FROM messages WHERE session_pk = ?1")
        .and_then(|mut select| select.query_row([session], |row| row.get(0)))
        .translated()
}

/// The messages after a place.
#[derive(Default)]
struct ReadMessages {
    messages: Vec<Arc<Message>>,
    /// Messages that rewinds hide.
    rewound: Vec<Arc<Message>>,
    /// The lowest key of their turns.
    first_turn: Option<i64>,
}

impl ReadMessages {
    /// Reads them from session `from` on. Sessions are numbered in their order, so nothing has to be sorted.
    fn read(connection: &Connection, lineage: &Lineage, from: i64, after: i64, rewinds: &Rewinds) -> StoreResult<Self> {
        let mut select = connection
            .prepare_cached(&format!(
                "SELECT {MESSAGE}, m.turn_pk FROM sessions s JOIN messages m ON m.session_pk = s.pk
             JOIN turns t ON t.pk = m.turn_pk
             WHERE s.conversation_pk = ?1 AND s.pk BETWEEN ?2 AND ?3 AND m.seq > ?4 AND m.seq <= ?5
             AND m.compaction_pk IS NULL ORDER BY s.pk, m.seq"
            ))
            .translated()?;
        let mut read = Self::default();
        for &Segment { conversation, session, through } in lineage.segments() {
            let mut said = select.query([conversation, from, session, after, through]).translated()?;
            while let Some(row) = said.next().translated()? {
                let turn: i64 = row.get(MESSAGE_WIDTH).translated()?;
                read.first_turn = Some(read.first_turn.map_or(turn, |first: i64| first.min(turn)));
                let message = rows::message(row).map(Arc::new).translated()?;
                match rewinds.hide(message.seq) {
                    true => read.rewound.push(message),
                    false => read.messages.push(message),
                }
            }
        }
        Ok(read)
    }
}

/// The failed turns of a transcript, from one turn on.
struct FailedTurns {
    /// Turns without an answer.
    unanswered: HashMap<TurnId, Unanswered>,
    /// Turns that failed and were run again at the end, with the number of their first attempt there.
    begun_anew: HashMap<TurnId, u32>,
}

impl FailedTurns {
    fn read(connection: &Connection, lineage: &Lineage, first: Option<i64>, rewinds: &Rewinds) -> StoreResult<Self> {
        let mut failed = Self { unanswered: HashMap::new(), begun_anew: HashMap::new() };
        let Some(first) = first else { return Ok(failed) };
        // A branch may inherit the place where a turn failed, but not the later place where it ran again. Then the turn
        // is unanswered in the branch. The same holds if a rewind hides the later place. Failed attempts before the
        // first turn are read too, because a compaction may carry their messages.
        static FAILED: LazyLock<String> = LazyLock::new(|| {
            let shown = rewinds::shows("coalesce(n.first_seq, n.last_seq)", "?4");
            let failed_in = |index: &str| {
                format!(
                    "SELECT coalesce(t.attempt_of, t.id), t.state, t.attempt, t.attempt_of IS NOT NULL AND EXISTS (
                     SELECT 1 FROM turns n WHERE (n.id = t.attempt_of OR n.attempt_of = t.attempt_of) AND n.pk > t.pk
                     AND coalesce(n.first_seq, n.last_seq) <= ?3 AND {shown}), t.first_seq
                     FROM turns t INDEXED BY {index} WHERE t.conversation_pk = ?1 AND t.first_seq <= ?3"
                )
            };
            format!(
                "{} AND t.pk >= ?2 AND (t.state = 'failed' OR t.state = 'cancelled' OR t.state = 'interrupted')
                 UNION ALL {} AND t.pk < ?2 AND t.attempt_of IS NOT NULL",
                failed_in("turns_unanswered"),
                failed_in("turns_left_in_conversation")
            )
        });
        let stored = rewinds::to(rewinds);
        let mut select = connection.prepare_cached(&FAILED).translated()?;
        for segment in lineage.segments() {
            let range = params![segment.conversation, first, segment.through, stored];
            let mut turns = select.query(range).translated()?;
            while let Some(row) = turns.next().translated()? {
                let id = TurnId::from_uuid(rows::uuid(row, 0).translated()?);
                let attempt: u32 = row.get(2).translated()?;
                if row.get(3).translated()? {
                    let first = failed.begun_anew.entry(id).or_default();
                    *first = (attempt + 1).max(*first);
                } else if !failed.unanswered.contains_key(&id) || !rewinds.hide(Seq(row.get(4).translated()?)) {
                    // If a turn has two places, the visible one counts.
                    let state = rows::word(row, 1, TurnState::parse).translated()?;
                    failed.unanswered.insert(id, Unanswered { state, attempt });
                }
            }
        }
        Ok(failed)
    }
}

/// What a conversation stores for its next turn.
struct NextTurnContext {
    system: Arc<[Payload]>,
    counted: Option<Counted>,
    auto_compaction_paused: bool,
    rewrites: u32,
    untitled: bool,
    rewinds: Rewinds,
    history: Option<HistoryDigest>,
}

impl NextTurnContext {
    fn read(connection: &Connection, conversation: i64) -> StoreResult<Self> {
        connection
            .prepare_cached(
                "SELECT system, counted_seq, counted_tokens, auto_compaction_paused, rewrites, title IS NULL
                 AND nameless = 0, rewinds, history FROM conversations WHERE pk = ?1",
            )
            .and_then(|mut select| {
                select.query_row([conversation], |row| {
                    let through = row.get::<_, Option<i64>>(1)?.map(Seq);
                    let tokens = row.get::<_, Option<i64>>(2)?.map(i64::unsigned_abs);
                    Ok(Self {
                        system: rows::system_from(row.get_ref(0)?.as_str_or_null()?),
                        counted: through.zip(tokens).map(|(through, tokens)| Counted { through, tokens }),
                        auto_compaction_paused: row.get(3)?,
                        rewrites: row.get(4)?,
                        untitled: row.get(5)?,
                        rewinds: rewinds::read(row, 6)?,
                        history: histories::read(row, 7)?,
                    })
                })
            })
            .translated()
    }
}

//! Rewinds a conversation to an earlier place, and undoes that.
//!
//! No message and no session changes. The conversation gets one more range of places that the model is not shown.

use herma_model::{Alias, KeyScope, Rewinds, RewoundRange, Seq, Timestamp};
use herma_store::{Rewind, RewindOutcome, RewindPoint, Scope};
use rusqlite::{Connection, params};

use crate::compact::{Idle, idle};
use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::lineage::Lineage;
use crate::rows::ConversationState;
use crate::{listing, messages, rewinds};

/// Rewinds, or changes nothing except that a dead owner's turn is ended.
pub(crate) fn rewind(connection: &Connection, instance: &Instance, rewind: &Rewind) -> StoreResult<RewindOutcome> {
    let idle = match IdleConversation::find(connection, instance, &rewind.scope, &rewind.alias, rewind.now)? {
        Ok(idle) => idle,
        Err(outcome) => return Ok(outcome),
    };
    let last_shown = match rewind.to {
        RewindPoint::Message(id) => {
            let Some(found) = messages::find(connection, rewind.scope.tenant, &idle.lineage, id)? else {
                return Ok(RewindOutcome::NoSuchMessage);
            };
            let seq = found.read(connection)?.seq;
            if idle.earlier.hide(seq) {
                return Ok(RewindOutcome::AlreadyRewound);
            }
            seq
        }
        RewindPoint::Turns(wanted) => match idle.before_turns(connection, wanted)? {
            Ok(seq) => seq,
            Err(there_are) => return Ok(RewindOutcome::TooFewTurns(there_are)),
        },
    };
    let wanted = match has_message_after(connection, &idle.lineage, last_shown, &idle.earlier)? {
        true => idle.earlier.clone().and(RewoundRange { after: last_shown, through: Seq(idle.state.next_seq - 1) }),
        false => idle.earlier.clone(),
    };
    idle.set(connection, &wanted, rewind.now).map(RewindOutcome::Done)
}

/// Shows the model again what was rewound since the last turn.
pub(crate) fn restore(
    connection: &Connection,
    instance: &Instance,
    scope: &Scope,
    alias: &Alias,
    now: Timestamp,
) -> StoreResult<RewindOutcome> {
    let idle = match IdleConversation::find(connection, instance, scope, alias, now)? {
        Ok(idle) => idle,
        Err(outcome) => return Ok(outcome),
    };
    if idle.earlier == idle.all {
        return Ok(RewindOutcome::NothingToRestore);
    }
    idle.set(connection, &idle.earlier, now).map(RewindOutcome::Done)
}

/// A conversation without a running turn, and its rewinds.
struct IdleConversation {
    state: ConversationState,
    /// Which session keys the caller may use.
    keys: KeyScope,
    lineage: Lineage,
    all: Rewinds,
    /// The rewinds without the one that can still be undone.
    earlier: Rewinds,
}

impl IdleConversation {
    fn find(
        connection: &Connection,
        instance: &Instance,
        scope: &Scope,
        alias: &Alias,
        now: Timestamp,
    ) -> StoreResult<Result<Self, RewindOutcome>> {
        let state = match idle(connection, instance, scope, alias, now)? {
            Idle::Free(state) if state.ended => return Ok(Err(RewindOutcome::Ended)),
            Idle::Free(state) => *state,
            Idle::Busy(turn) => return Ok(Err(RewindOutcome::Busy(turn))),
            Idle::NotFound => return Ok(Err(RewindOutcome::NotFound)),
        };
        let lineage = Lineage::after(connection, &state, 0)?;
        let all = rewinds::of(connection, state.key)?;
        let (earlier, last) = all.split_last();
        let earlier = match last {
            Some(last) if !has_message_after(connection, &lineage, last.through, &Rewinds::default())? => earlier,
            _ => all.clone(),
        };
        Ok(Ok(Self { state, keys: scope.keys.clone(), lineage, all, earlier }))
    }

    /// The place before the last `wanted` visible turns. An error with the number of visible turns if there are fewer.
    fn before_turns(&self, connection: &Connection, wanted: u32) -> StoreResult<Result<Seq, u32>> {
        let mut select = connection
            .prepare_cached(
                "SELECT m.seq, coalesce(t.attempt_of, t.id) FROM sessions s JOIN messages m ON m.session_pk = s.pk
                 JOIN turns t ON t.pk = m.turn_pk WHERE s.conversation_pk = ?1 AND s.pk <= ?2 AND m.seq <= ?3
                 AND m.compaction_pk IS NULL ORDER BY s.pk DESC, m.seq DESC",
            )
            .translated()?;
        let (mut count, mut turn, mut first) = (0, None, None);
        for segment in self.lineage.segments().iter().rev() {
            let mut said = select.query([segment.conversation, segment.session, segment.through]).translated()?;
            while let Some(row) = said.next().translated()? {
                let seq = Seq(row.get(0).translated()?);
                if self.all.hide(seq) {
                    continue;
                }
                let this: Vec<u8> = row.get(1).translated()?;
                if turn.as_ref() != Some(&this) {
                    if let Some(first) = first.filter(|_| count == wanted) {
                        return Ok(Ok(first));
                    }
                    (count, turn) = (count + 1, Some(this));
                }
                first = Some(Seq(seq.0 - 1));
            }
        }
        Ok(first.filter(|_| count == wanted).ok_or(count))
    }

    /// Stores the rewinds. Counted tokens and prepared summaries of the old view are no longer valid.
    fn set(
        &self,
        connection: &Connection,
        wanted: &Rewinds,
        now: Timestamp,
    ) -> StoreResult<Box<herma_store::ConversationRow>> {
        if *wanted != self.all {
            connection
                .execute(
                    "UPDATE conversations SET rewinds = ?2, version = version + 1, changes = changes + 1,
                     rewrites = rewrites + 1, updated_at = ?3, counted_seq = NULL, counted_tokens = NULL,
                     history = NULL WHERE pk = ?1",
                    params![self.state.key, rewinds::to(wanted), now.0],
                )
                .translated()?;
        }
        listing::by_key(connection, &self.keys, self.state.key).map(Box::new)
    }
}

/// Whether there is a message after a place that these rewinds do not hide.
fn has_message_after(connection: &Connection, lineage: &Lineage, place: Seq, hiding: &Rewinds) -> StoreResult<bool> {
    let shown = rewinds::shows("m.seq", "?5");
    let mut select = connection
        .prepare_cached(&format!(
            "SELECT 1 FROM sessions s JOIN messages m ON m.session_pk = s.pk WHERE s.conversation_pk = ?1
             AND s.pk <= ?2 AND m.seq > ?3 AND m.seq <= ?4 AND m.compaction_pk IS NULL AND {shown}"
        ))
        .translated()?;
    for segment in lineage.segments().iter().rev() {
        let range = params![segment.conversation, segment.session, place.0, segment.through, rewinds::to(hiding)];
        if select.exists(range).translated()? {
            return Ok(true);
        }
    }
    Ok(false)
}

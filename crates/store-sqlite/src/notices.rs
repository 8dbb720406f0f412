//! Subscriptions of this process, and whether what they wait for has happened.
//!
//! SQLite reports that another connection has committed something, but not what. So maintenance checks what is
//! subscribed: one index look-up each, and only after a commit. Without subscriptions it reads nothing. Every check
//! makes a stamp. A notice is sent if the stamp differs from the last one and the notice is due.
//!
//! Commits of this process are found in the same way. Turns that must not wait for a check are told by the gateway,
//! which made the commit: the next turn in line, and the listeners of a turn's log.
//!
//! A new subscription is checked once even if nothing was committed since, and that check compares with no stamp. So a
//! change between the caller's read and the first check is not lost.
//!
//! Never lock the map of subscriptions while reading the database: callers subscribe on async threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use herma_model::{ConversationId, TurnId};
use herma_store::{Notice, Subscription};
use rusqlite::{Connection, OptionalExtension};
use tokio::sync::watch;

use crate::failure::{StoreResult, Translate};
use crate::rows;

/// This process as an owner of turns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) key: i64,
    /// How many of its turns run or wait, as far as it knows.
    pub(crate) live: &'a AtomicUsize,
}

/// The subscriptions of this process.
#[derive(Default)]
pub(crate) struct Notices {
    watched: Mutex<HashMap<Notice, WatchedNotice>>,
}

struct WatchedNotice {
    notices: watch::Sender<()>,
    /// The stamp of the last check.
    seen: Option<Stamp>,
    /// Whether a subscription was made after the last check began.
    is_new: bool,
}

/// What a check has read. It differs after every change that the notice is about.
type Stamp = Vec<i64>;

/// The result of one check.
struct Observation {
    stamp: Stamp,
    /// Whether a notice is sent if the stamp has changed.
    is_due: bool,
}

impl Notices {
    fn lock(&self) -> MutexGuard<'_, HashMap<Notice, WatchedNotice>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscribe(&self, notice: Notice) -> Subscription {
        let mut watched = self.lock();
        let watched = watched.entry(notice).or_insert_with(|| WatchedNotice {
            notices: watch::Sender::new(()),
            seen: None,
            is_new: true,
        });
        watched.is_new = true;
        Subscription::new(watched.notices.subscribe())
    }

    /// Ends all subscriptions.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    /// Whether there is anything to check. Forgets notices without subscriptions.
    pub(crate) fn are_wanted(&self, own: Option<Owner<'_>>) -> bool {
        let mut watched = self.lock();
        watched.retain(|_, watched| watched.notices.receiver_count() > 0);
        watched.keys().any(|notice| is_wanted(*notice, own))
    }

    /// Checks all subscriptions, or only the new ones if nothing was committed since the last time.
    pub(crate) fn check(&self, connection: &Connection, own: Option<Owner<'_>>, is_committed: bool) {
        for (notice, before) in self.to_check(own, is_committed) {
            let observed = self.check_one(connection, notice, own);
            let mut all = self.lock();
            let Some(watched) = all.get_mut(&notice) else { continue };
            match observed {
                Ok(observed) => {
                    if observed.is_due && before.as_ref() != Some(&observed.stamp) {
                        watched.notices.send_replace(());
                    }
                    watched.seen = Some(observed.stamp);
                }
                Err(error) => {
                    tracing::debug!(%error, ?notice, "a subscription could not be checked; it is tried again");
                    watched.is_new = true;
                }
            }
        }
    }

    fn to_check(&self, own: Option<Owner<'_>>, is_committed: bool) -> Vec<(Notice, Option<Stamp>)> {
        let mut all = self.lock();
        let wanted =
            all.iter_mut().filter(|(notice, watched)| (is_committed || watched.is_new) && is_wanted(**notice, own));
        wanted
            .map(|(notice, watched)| {
                let seen = watched.seen.clone();
                (*notice, if std::mem::take(&mut watched.is_new) { None } else { seen })
            })
            .collect()
    }

    fn check_one(&self, connection: &Connection, notice: Notice, own: Option<Owner<'_>>) -> StoreResult<Observation> {
        match notice {
            Notice::ConversationFree(conversation) => self.check_conversation_free(connection, conversation),
            Notice::WaitEnded(turn) => check_wait_ended(connection, turn),
            Notice::TurnChanged(turn) => check_turn_changed(connection, turn),
            Notice::StopRequested => check_stop_requested(connection, own),
        }
    }

    /// Due if the conversation has no running turn and the first turn in line waits in this process. If it waits in
    /// another process, that process sends the notice.
    fn check_conversation_free(
        &self,
        connection: &Connection,
        conversation: ConversationId,
    ) -> StoreResult<Observation> {
        let found: Option<(Stamp, bool, Option<TurnId>)> = connection
            .prepare_cached(
                "SELECT c.version, c.fence, coalesce(c.running_turn, 0), t.pk, t.id
                 FROM conversations c LEFT JOIN turns t ON t.pk = (SELECT w.pk FROM turns w
                 WHERE w.conversation_pk = c.pk AND w.state IN ('queued', 'running') AND w.state = 'queued'
                 ORDER BY w.priority DESC, w.pk LIMIT 1) WHERE c.id = ?1 AND c.deleted = 0",
            )
            .and_then(|mut select| {
                select
                    .query_row([conversation.uuid().as_bytes()], |row| {
                        let (running, first): (i64, Option<i64>) = (row.get(2)?, row.get(3)?);
                        let stamp = vec![row.get(0)?, row.get(1)?, running, first.unwrap_or(0)];
                        let id = first.map(|_| rows::uuid(row, 4).map(TurnId::from_uuid)).transpose()?;
                        Ok((stamp, running == 0, id))
                    })
                    .optional()
            })
            .translated()?;
        let Some((stamp, is_free, first)) = found else { return Ok(Observation { stamp: Vec::new(), is_due: true }) };
        let is_ours = first.is_none_or(|first| self.lock().contains_key(&Notice::WaitEnded(first)));
        Ok(Observation { stamp, is_due: is_free && is_ours })
    }
}

fn check_wait_ended(connection: &Connection, turn: TurnId) -> StoreResult<Observation> {
    let waits = connection
        .prepare_cached("SELECT 1 FROM turns WHERE id = ?1 AND state = 'queued'")
        .and_then(|mut select| select.exists([turn.uuid().as_bytes()]))
        .translated()?;
    Ok(Observation { stamp: vec![waits.into()], is_due: !waits })
}

fn check_turn_changed(connection: &Connection, turn: TurnId) -> StoreResult<Observation> {
    let stamp: Option<Stamp> = connection
        .prepare_cached(
            "SELECT t.pk, t.attempt, t.fence, t.first_seq IS NOT NULL, coalesce(t.ended_at, 0),
             CASE t.state WHEN 'queued' THEN 0 WHEN 'running' THEN 1 ELSE 2 END,
             (SELECT coalesce(max(j.part) + 1, 0) FROM turn_journal j WHERE j.turn_pk = t.pk),
             EXISTS (SELECT 1 FROM turns w WHERE w.attempt_of = t.id AND w.state = 'queued'),
             (SELECT count(*) FROM approvals a WHERE a.turn_pk = t.pk AND a.choice IS NOT NULL)
             FROM turns t JOIN conversations c ON c.pk = t.conversation_pk
             WHERE t.id = ?1 AND t.attempt_of IS NULL AND c.deleted = 0",
        )
        .and_then(|mut select| {
            select.query_row([turn.uuid().as_bytes()], |row| (0..9).map(|column| row.get(column)).collect()).optional()
        })
        .translated()?;
    Ok(Observation { stamp: stamp.unwrap_or_default(), is_due: true })
}

/// Due if a turn of any process is asked to stop, which is rare. Also due if this process knows of more live turns than
/// are stored: then another process has ended one.
fn check_stop_requested(connection: &Connection, own: Option<Owner<'_>>) -> StoreResult<Observation> {
    let Some(own) = own else { return Ok(Observation { stamp: Vec::new(), is_due: false }) };
    let live = own.live.load(Ordering::Acquire);
    let mut select = connection
        .prepare_cached(
            "SELECT owner, stop_requested IS NOT NULL, pk FROM turns WHERE state IN ('queued', 'running')
             UNION ALL SELECT owner, 0, turn_pk FROM live_admissions",
        )
        .translated()?;
    let mut rows = select.query([]).translated()?;
    let (mut stamp, mut stored) = (Vec::new(), 0);
    while let Some(row) = rows.next().translated()? {
        stored += usize::from(row.get::<_, i64>(0).translated()? == own.key);
        if row.get(1).translated()? {
            stamp.push(row.get(2).translated()?);
        }
    }
    // A turn that began or ended during this check does not count as lost.
    let lost = live.min(own.live.load(Ordering::Acquire)).saturating_sub(stored);
    let is_due = !stamp.is_empty() || lost > 0;
    stamp.push(i64::try_from(lost).unwrap_or(i64::MAX));
    Ok(Observation { stamp, is_due })
}

/// Only a process with turns of its own can be asked to stop one.
fn is_wanted(notice: Notice, own: Option<Owner<'_>>) -> bool {
    own.is_some() || notice != Notice::StopRequested
}

#[cfg(test)]
mod tests;

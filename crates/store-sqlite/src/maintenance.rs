//! The maintenance thread: it sends notices of changes, renews leases, finds dead owners, empties the log, overwrites
//! what was erased, writes the search index and wakes the followers of events.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use herma_model::Timestamp;
use rusqlite::Connection;
use tokio::sync::watch;

use crate::erase::{receipts, scrub};
use crate::failure::{StoreResult, Translate};
use crate::instance::{Instance, NOBODY};
use crate::notices::{Notices, Owner};
use crate::remember::RecallCache;
use crate::renewals::Renewals;
use crate::search::indexer::Indexer;
use crate::takeover::{TakeoverReason, take_over};
use crate::writer::{JobOutcome, WhenUnavailable, Writer};
use crate::{admissions, events, queue, retry, snapshot};

const TICK: Duration = Duration::from_millis(100);
const SWEEP: Duration = Duration::from_secs(2);
/// Shortest time between two requests for a renewal.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The log is copied into the database if it has more than this many bytes and more than this many uncopied pages. The
/// size alone does not tell, because the file keeps it when the log restarts.
///
/// A page that many turns have written is copied once. So it pays to let the log grow, but a start after `kill -9` has
/// to read all of it.
const LOG_LIMIT: u64 = 32 * 1024 * 1024;
const LOG_PAGES: i64 = 8192;
/// How often the log is copied again because turns have written more pages than this meanwhile. The writer has to copy
/// the pages that are left, and no turn is written while it does.
const COPY_ROUNDS: usize = 3;
const FEW_PAGES: i64 = 256;
/// From this size on the log's file is truncated. It gets so large only while a long read needs its beginning.
const LARGE_LOG: u64 = 96 * 1024 * 1024;
/// Shortest time between two attempts to truncate the log's file.
const EMPTY_AGAIN: Duration = Duration::from_secs(1);
/// When a process takes turns out of the index of joinable turns that others have left there. Not at its start: after
/// much work there are many, and its first turn would wait.
const FORGET_TURNS_AFTER: Duration = Duration::from_secs(1);
/// How many of them it takes out at a time.
const FORGOTTEN_TURNS: usize = 256;
/// How often old idempotency keys are deleted.
const FORGET: Duration = Duration::from_secs(60 * 60);
/// How long an idempotency key is kept.
const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The current time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The maintenance thread. It runs until `stop` is set.
pub(crate) struct Maintenance {
    pub(crate) connection: Connection,
    pub(crate) log: PathBuf,
    pub(crate) writer: Arc<Writer>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) new_events: watch::Sender<i64>,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) remembered: Arc<RecallCache>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Receipts whose text is in no page any more, but may be in the log.
#[derive(Clone, Copy)]
struct Scrubbed {
    /// The newest of them.
    receipts: i64,
    /// They are done when the log was truncated after this many deletions.
    total: u64,
}

impl Maintenance {
    pub(crate) fn start(self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("herma-maintenance".into()).spawn(move || self.run())
    }

    fn run(self) {
        let (mut asked, mut swept, mut forgot) = (Instant::now(), Instant::now(), Instant::now());
        let (mut seen, mut followed) = (None, None);
        let mut emptied = Instant::now();
        let mut scrubbing = None;
        let mut indexer = Indexer::new(Arc::clone(&self.remembered));
        let began = Instant::now();
        let mut forgettable_turns: Option<Vec<i64>> = None;
        self.sweep();
        self.forget_old_keys();
        while !self.stop.load(Ordering::Acquire) {
            std::thread::park_timeout(TICK);
            self.writer.look_after_combiner();
            let log = log_size(&self.log);
            if log > LOG_LIMIT && self.pages_to_copy() > LOG_PAGES {
                self.checkpoint();
            }
            scrubbing = scrubbing.and_then(|scrubbed| self.mark_scrubbed(scrubbed));
            if emptied.elapsed() >= EMPTY_AGAIN {
                emptied = Instant::now();
                scrubbing = scrubbing.or_else(|| self.scrub());
                if log > LARGE_LOG || self.writer.erasures.is_due() {
                    self.empty_log();
                }
            }
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                self.sweep();
            }
            if forgot.elapsed() >= FORGET {
                forgot = Instant::now();
                self.forget_old_keys();
            }
            if began.elapsed() >= FORGET_TURNS_AFTER {
                self.forget_turns(forgettable_turns.get_or_insert_with(|| self.forgettable_turns()));
            }
            self.wake_followers(&mut followed);
            let is_serving = self.writer.live.load(Ordering::Acquire) > 0;
            indexer.tick(&self.connection, &self.writer, is_serving);
            self.check_notices(is_serving, &mut seen);
            if !is_serving {
                continue;
            }
            if self.renewals.is_due() && asked.elapsed() >= ASK_AGAIN {
                asked = Instant::now();
                self.background(|connection, instance| instance.key(connection, now()).map(drop));
            }
        }
        // Truncate now: other processes may keep the log open, and do not know what was deleted here.
        if self.writer.erasures.is_due() {
            if self.writer.erasures.needs_scrub() {
                self.scrub_pages();
            }
            self.empty_log();
        }
    }

    /// Marks receipts as done if the log was truncated after their pages were overwritten. Else returns them again.
    fn mark_scrubbed(&self, scrubbed: Scrubbed) -> Option<Scrubbed> {
        if !self.writer.erasures.is_done(scrubbed.total) {
            return Some(scrubbed);
        }
        self.background(move |connection, _| receipts::mark_scrubbed(connection, scrubbed.receipts));
        None
    }

    /// Overwrites old copies of deleted text, if a deletion of this process or a receipt of any process needs it.
    /// Returns the receipts that then wait for the log.
    fn scrub(&self) -> Option<Scrubbed> {
        let erasures = &self.writer.erasures;
        let receipts = receipts::ready_to_scrub(&self.connection).ok().flatten();
        if receipts.is_none() && !erasures.needs_scrub() {
            return None;
        }
        // A log that was truncated before the pages were overwritten does not count.
        erasures.add();
        let total = self.scrub_pages()?;
        receipts.map(|receipts| Scrubbed { receipts, total })
    }

    /// Overwrites old copies of deleted text. Returns how many deletions that was for; `None` if it failed.
    fn scrub_pages(&self) -> Option<u64> {
        let total = self.writer.erasures.total();
        match scrub::scrub(&self.connection) {
            Ok(pages) => {
                tracing::debug!(pages, "unused parts of pages overwritten");
                self.writer.erasures.mark_scrubbed(total);
                Some(total)
            }
            Err(error) => {
                tracing::warn!(%error, "erased text could not be overwritten yet; it is tried again");
                None
            }
        }
    }

    /// A number that changes with every commit of another connection, this process's writer included.
    fn version(&self) -> Option<i64> {
        self.connection.pragma_query_value(None, "data_version", |row| row.get(0)).ok()
    }

    /// Sends the notices that are due.
    fn check_notices(&self, is_serving: bool, seen: &mut Option<i64>) {
        let live = &*self.writer.live;
        let own = self.renewals.owner().filter(|_| is_serving).map(|key| Owner { key, live });
        if !self.notices.are_wanted(own) {
            return;
        }
        // Read the version first: a commit during the check is then found by the next check.
        let version = self.version();
        let is_committed = version.is_none() || version != *seen;
        *seen = version;
        self.notices.check(&self.connection, own, is_committed);
    }

    /// Wakes the followers of events if there are new ones. Reads nothing while there are no followers.
    fn wake_followers(&self, followed: &mut Option<i64>) {
        if self.new_events.receiver_count() == 0 {
            return;
        }
        let version = self.version();
        if version.is_some() && version == *followed {
            return;
        }
        *followed = version;
        if let Ok(total) = events::total(&self.connection) {
            self.new_events.send_if_modified(|known| std::mem::replace(known, total) != total);
        }
    }

    /// Queues a write that will be repeated anyway, so it may be refused if the database is locked.
    fn background(&self, work: impl FnOnce(&Connection, &mut Instance) -> StoreResult<()> + Send + 'static) {
        self.writer
            .submit_lazy(WhenUnavailable::Refuse, move |connection, instance| keep_or_log(work(connection, instance)));
    }

    /// Whether a turn of any process runs, waits or has left its admission behind. Parked turns belong to no process.
    fn has_live_turns(&self) -> bool {
        let live = "SELECT EXISTS (SELECT 1 FROM turns WHERE state IN ('queued', 'running') AND owner <> ?1)
                    OR EXISTS (SELECT 1 FROM admissions)";
        self.connection.query_row(live, [NOBODY], |row| row.get(0)).unwrap_or(false)
    }

    /// Also sweeps for turns of other processes if this one has none: a client here may be following one. Admissions
    /// that were left behind are swept too.
    fn sweep(&self) {
        if self.has_live_turns() {
            self.background(|connection, instance| sweep(connection, instance, now()));
        }
    }

    fn forget_old_keys(&self) {
        let before = now().0 - i64::try_from(IDEMPOTENCY_KEPT.as_millis()).unwrap_or(i64::MAX);
        let old = self.connection.query_row(
            "SELECT EXISTS (SELECT 1 FROM idempotency WHERE created_at < ?1)",
            [before],
            |row| row.get::<_, bool>(0),
        );
        if old.unwrap_or(false) {
            self.background(move |connection, _| {
                let forgotten = connection.execute("DELETE FROM idempotency WHERE created_at < ?1", [before]);
                forgotten.map(drop).translated()
            });
        }
    }

    fn forgettable_turns(&self) -> Vec<i64> {
        retry::forgettable(&self.connection, now()).unwrap_or_default()
    }

    /// Takes some of these turns out of the index of joinable turns.
    fn forget_turns(&self, turns: &mut Vec<i64>) {
        let some = turns.split_off(turns.len().saturating_sub(FORGOTTEN_TURNS));
        if !some.is_empty() {
            self.background(move |connection, _| retry::forget_old(connection, &some, now()));
        }
    }

    fn pages_to_copy(&self) -> i64 {
        self.connection
            .query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?))
            .unwrap_or(0)
    }

    /// Copies the log into the database without blocking readers or writers, then has the writer restart it.
    fn checkpoint(&self) {
        for _ in 0..COPY_ROUNDS {
            self.copy_log();
            if self.pages_to_copy() <= FEW_PAGES {
                break;
            }
        }
        self.writer.restart_log();
    }

    /// Copies the log into the database without blocking readers or writers, then has the writer truncate its file.
    fn empty_log(&self) {
        self.copy_log();
        self.writer.truncate_log();
    }

    fn copy_log(&self) {
        let copied = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(0));
        tracing::debug!(?copied, "log copied into the database");
    }
}

fn log_size(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |meta| meta.len())
}

pub(crate) fn keep_or_log<T>(outcome: StoreResult<T>) -> JobOutcome {
    match outcome {
        Ok(_) => JobOutcome::Keep(Box::new(|_| {})),
        Err(error) => {
            tracing::warn!(%error, "background work on the store failed");
            JobOutcome::Undo(Box::new(|_| {}))
        }
    }
}

/// Ends the turns of dead processes, and the turns that this process has given up.
pub(crate) fn sweep(connection: &Connection, instance: &mut Instance, now: Timestamp) -> StoreResult<()> {
    instance.watch(connection, now)?;
    admissions::write_out_dead(connection, instance)?;
    admissions::forget_left(connection)?;
    let mut select = connection
        .prepare_cached(
            "SELECT pk, owner, state = 'queued', conversation_pk FROM turns WHERE state IN ('queued', 'running')",
        )
        .translated()?;
    let live: Vec<(i64, i64, bool, i64)> = select
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .and_then(Iterator::collect)
        .translated()?;
    for (turn, owner, queued, conversation) in live {
        if !instance.is_dead(connection, owner, turn)? {
            continue;
        }
        if queued {
            tracing::warn!("the owner of a waiting turn is gone; the turn is ended");
            queue::leave(connection, conversation, turn, &TakeoverReason::OwnerGone.failure(), now)?;
            continue;
        }
        let mut state = snapshot::load(connection, conversation)?;
        take_over(connection, &mut state, turn, TakeoverReason::OwnerGone, now)?;
    }
    Ok(())
}

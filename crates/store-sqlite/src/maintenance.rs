//! What has to happen from time to time: noticing other processes, renewing leases, finding dead owners, emptying the log,
//! writing the search index, waking those who follow the events.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use herma_model::Timestamp;
use rusqlite::Connection;
use tokio::sync::watch;

use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::notices::{Notices, Owner};
use crate::renewals::Renewals;
use crate::search::indexer::Indexer;
use crate::takeover::{Why, take_over};
use crate::writer::{Patience, Step, Writer};
use crate::{events, queue, snapshot};

const TICK: Duration = Duration::from_millis(100);
const SWEEP: Duration = Duration::from_secs(2);
/// How long after a renewal was asked for it may be asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Log size from which it is copied into the database, and the pages it then holds that are not copied yet. The file keeps its size
/// when the log starts over.
const LOG_LIMIT: u64 = 16 * 1024 * 1024;
const LOG_PAGES: i64 = 4096;
/// Log size from which its file is emptied: it grew while a long reader needed its beginning.
const LARGE_LOG: u64 = 48 * 1024 * 1024;
/// How long after one attempt to empty the log's file the next one is made.
const EMPTY_AGAIN: Duration = Duration::from_secs(1);
/// How often old idempotency keys are forgotten.
const FORGET: Duration = Duration::from_secs(60 * 60);
/// How long an idempotency key is remembered.
const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The milliseconds of now.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A thread that does all of this until it is told to stop.
pub(crate) struct Maintenance {
    pub(crate) connection: Connection,
    pub(crate) log: PathBuf,
    pub(crate) writer: Arc<Writer>,
    pub(crate) notices: Arc<Notices>,
    pub(crate) new_events: watch::Sender<i64>,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Maintenance {
    pub(crate) fn start(self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new().name("herma-maintenance".into()).spawn(move || self.run())
    }

    fn run(self) {
        let (mut asked, mut swept, mut forgot) = (Instant::now(), Instant::now(), Instant::now());
        let (mut seen, mut followed) = (None, None);
        let mut emptied = Instant::now();
        let mut indexer = Indexer::new();
        self.sweep();
        self.forget_old_keys();
        while !self.stop.load(Ordering::Acquire) {
            std::thread::park_timeout(TICK);
            let log = log_size(&self.log);
            if log > LOG_LIMIT && self.pages_to_copy() > LOG_PAGES {
                self.checkpoint();
            }
            if (log > LARGE_LOG || self.writer.erasures.are_due()) && emptied.elapsed() >= EMPTY_AGAIN {
                emptied = Instant::now();
                self.empty_log();
            }
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                self.sweep();
            }
            if forgot.elapsed() >= FORGET {
                forgot = Instant::now();
                self.forget_old_keys();
            }
            self.wake_followers(&mut followed);
            let is_serving = self.writer.live.load(Ordering::Acquire) > 0;
            indexer.tick(&self.connection, &self.writer, is_serving);
            self.look_around(is_serving, &mut seen);
            if !is_serving {
                continue;
            }
            if self.renewals.is_due() && asked.elapsed() >= ASK_AGAIN {
                asked = Instant::now();
                self.background(|connection, instance| instance.key(connection, now()).map(drop));
            }
        }
        // Other processes may keep the log open, and know nothing of what was deleted here.
        if self.writer.erasures.are_due() {
            self.empty_log();
        }
    }

    /// Counts up with what others write, this process' writer included.
    fn version(&self) -> Option<i64> {
        self.connection.pragma_query_value(None, "data_version", |row| row.get(0)).ok()
    }

    /// Sends the notices that are due.
    fn look_around(&self, is_serving: bool, seen: &mut Option<i64>) {
        let live = &*self.writer.live;
        let own = self.renewals.owner().filter(|_| is_serving).map(|key| Owner { key, live });
        if !self.notices.are_wanted(own) {
            return;
        }
        // Before the look: what is committed during it is seen by the next one.
        let version = self.version();
        let is_committed = version.is_none() || version != *seen;
        *seen = version;
        self.notices.look(&self.connection, own, is_committed);
    }

    /// Wakes those who follow the events, if there are more. While nobody does, nothing is looked at.
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

    /// Has something written that comes again by itself if the database does not take it now.
    fn background(&self, work: impl FnOnce(&Connection, &mut Instance) -> StoreResult<()> + Send + 'static) {
        self.writer.submit_lazy(Patience::Refused, move |connection, instance| keep(work(connection, instance)));
    }

    fn has_live_turns(&self) -> bool {
        self.connection
            .query_row("SELECT EXISTS (SELECT 1 FROM turns WHERE state IN ('queued', 'running'))", [], |row| row.get(0))
            .unwrap_or(false)
    }

    /// Also for other processes' turns when this one has none: somebody here may be following one.
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

    fn pages_to_copy(&self) -> i64 {
        self.connection
            .query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?))
            .unwrap_or(0)
    }

    /// Copies the log into the database without holding anybody up, then lets the writer start it over.
    fn checkpoint(&self) {
        let copied = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(0));
        tracing::debug!(?copied, "log copied into the database");
        self.writer.restart_log();
    }

    /// Copies the log into the database without blocking readers or writers, then has the writer empty its file.
    fn empty_log(&self) {
        let copied = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(0));
        tracing::debug!(?copied, "log copied into the database");
        self.writer.truncate_log();
    }
}

fn log_size(log: &Path) -> u64 {
    std::fs::metadata(log).map_or(0, |meta| meta.len())
}

pub(crate) fn keep<T>(outcome: StoreResult<T>) -> Step {
    match outcome {
        Ok(_) => Step::Keep(Box::new(|_| {})),
        Err(error) => {
            tracing::warn!(%error, "background work on the store failed");
            Step::Undo(Box::new(|_| {}))
        }
    }
}

/// Ends the turns of processes that are gone, and those that this one has given up.
pub(crate) fn sweep(connection: &Connection, instance: &mut Instance, now: Timestamp) -> StoreResult<()> {
    instance.watch(connection, now)?;
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
            queue::leave(connection, conversation, turn, &Why::OwnerGone.failure(), now)?;
            continue;
        }
        let mut state = snapshot::load(connection, conversation)?;
        take_over(connection, &mut state, turn, Why::OwnerGone, now)?;
    }
    Ok(())
}

//! Decides when this process writes the search index.
//!
//! Texts are read and split into terms outside of write transactions (`batch`). The write transaction checks that the
//! rows have not changed, and moves the mark up to which everything is indexed (`write`). So the index stays correct
//! after a crash, beside other processes, and if a message is deleted meanwhile.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use uuid::Uuid;

use super::batch::{self, Batch, BatchLimit};
use super::common::Vocabulary;
use super::write::write;
use crate::failure::{StoreResult, Translate};
use crate::maintenance;
use crate::remember::{RecallCache, Written};
use crate::writer::{JobOutcome, Writer};

/// The index is written if a message has waited this long, or if more than `MOST_WAITING` messages wait. What was said
/// under a session key is to be remembered in other conversations within 3 seconds.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
const MOST_WAITING: i64 = 2000;
/// The index is behind if something has waited this long. Turns then wait for it rather than searches and recalls.
const BEHIND: Duration = Duration::from_millis(1500);
/// A claim that ends later than this was made before the clock was set back. It would last for as long as that was.
const LONGEST_CLAIM: Duration = Duration::from_secs(10 * 60);
/// How much of a tick indexing may take while no turn runs, while turns run, and while the index is behind.
const SLICE: Duration = Duration::from_millis(50);
const SLICE_BESIDE_TURNS: Duration = Duration::from_millis(25);
const SLICE_BEHIND: Duration = Duration::from_millis(100);

/// Decides when this process writes the index.
pub(crate) struct Indexer {
    owner: i64,
    vocabulary: Vocabulary,
    /// Since when something waits. `None` if nothing did at the last look.
    since: Option<Instant>,
    remembered: Arc<RecallCache>,
}

struct PendingWork {
    forgotten: bool,
    messages: i64,
    newest: i64,
    again: bool,
    claimed: bool,
}

impl Indexer {
    /// What it writes is added to what recalls have read.
    pub(crate) fn new(remembered: Arc<RecallCache>) -> Self {
        Self { owner: random_owner(), vocabulary: Vocabulary::new(), since: None, remembered }
    }

    /// Writes what is due, if this is a good time.
    pub(crate) fn tick(&mut self, connection: &Connection, writer: &Writer, is_serving: bool) {
        if let Err(error) = self.try_tick(connection, writer, is_serving) {
            tracing::warn!(%error, "the search index was not written");
        }
    }

    fn try_tick(&mut self, connection: &Connection, writer: &Writer, is_serving: bool) -> StoreResult<()> {
        let waiting = self.waiting(connection)?;
        if waiting.messages == 0 && !waiting.again {
            self.since = None;
        } else {
            self.since.get_or_insert_with(Instant::now);
        }
        let is_due = waiting.forgotten
            || waiting.messages > MOST_WAITING
            || self.since.is_some_and(|since| since.elapsed() > LONGEST_WAIT);
        // Deletions do not wait for the process that has claimed the index.
        if !is_due || (waiting.claimed && !waiting.forgotten) {
            return Ok(());
        }
        let is_behind = self.since.is_some_and(|since| since.elapsed() > BEHIND);
        let (slice, most) = match is_behind {
            true => (SLICE_BEHIND, BatchLimit::MEDIUM),
            false if is_serving => (SLICE_BESIDE_TURNS, BatchLimit::SMALL),
            false => (SLICE, BatchLimit::SMALL),
        };
        let began = Instant::now();
        loop {
            // What comes meanwhile waits for the next time, because a batch of a few rows is as much work to merge.
            let Some(batch) =
                batch::next(connection, &mut self.vocabulary, most)?.filter(|batch| batch.is_of(waiting.newest))
            else {
                self.since = None;
                return Ok(());
            };
            let Some(written) = self.submit(writer, batch) else { return Ok(()) };
            self.remembered.feed(written);
            if began.elapsed() > slice {
                return Ok(());
            }
        }
    }

    /// Has a batch written, and waits until it is committed. `None` if it was not written.
    fn submit(&self, writer: &Writer, batch: Batch) -> Option<Written> {
        let (answer, answered) = mpsc::channel();
        let owner = self.owner;
        let erasures = Arc::clone(&writer.erasures);
        writer.submit(move |connection, _| {
            let written = write(connection, &batch, owner, maintenance::now());
            if !batch.forgotten.is_empty() {
                erasures.add();
            }
            match written {
                Ok(number) => JobOutcome::Keep(Box::new(move |committed| {
                    let number = number.filter(|_| committed.is_ok());
                    let _ = answer.send(number.map(|number| batch.written(number)));
                })),
                Err(error) => maintenance::keep_or_log(Err::<(), _>(error)),
            }
        });
        answered.recv().ok().flatten()
    }

    fn waiting(&self, connection: &Connection) -> StoreResult<PendingWork> {
        connection
            .prepare_cached(
                "SELECT newest - through, newest, EXISTS (SELECT 1 FROM search_again),
                 owner <> ?1 AND claimed_until > ?2 AND claimed_until <= ?3, EXISTS (SELECT 1 FROM search_forget)
                 FROM search_state,
                 (SELECT coalesce(max(pk), 0) AS newest FROM messages)",
            )
            .and_then(|mut select| {
                let now = maintenance::now();
                select.query_row([self.owner, now.0, now.plus(LONGEST_CLAIM).0], |row| {
                    Ok(PendingWork {
                        messages: row.get(0)?,
                        newest: row.get(1)?,
                        again: row.get(2)?,
                        claimed: row.get(3)?,
                        forgotten: row.get(4)?,
                    })
                })
            })
            .translated()
    }
}

/// A random number that identifies this process.
pub(crate) fn random_owner() -> i64 {
    Uuid::new_v4().as_u64_pair().0.cast_signed()
}

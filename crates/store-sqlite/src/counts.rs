//! Counts what SQLite does, for `cargo xtask bench`. Only builds with the feature `counts` have this.
//!
//! The counts of the whole process go to the file that `HERMA_COUNTS` names. Without that variable nothing is counted.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, OnceLock, PoisonError};

use rusqlite::hooks::Wal;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, StatementStatus};

/// What the watched connections have done so far. The file has these numbers in this order, each with 64 bits.
#[derive(Default)]
struct Counts {
    /// Statements that were run, and rows that they returned. `BEGIN`, `COMMIT` and `SAVEPOINT` are statements too.
    steps: u64,
    /// Instructions of SQLite's virtual machine.
    machine_steps: u64,
    /// Transactions that wrote something.
    transactions: u64,
    /// Pages written to the write-ahead log.
    frames: u64,
}

impl Counts {
    fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        let numbers = [self.steps, self.machine_steps, self.transactions, self.frames];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// The file and its content.
struct Counting {
    file: File,
    counts: Mutex<Counts>,
}

impl Counting {
    /// `None` if the process does not count.
    fn wanted() -> Option<&'static Self> {
        static COUNTING: OnceLock<Option<Counting>> = OnceLock::new();
        let open = || {
            let file = File::create(std::env::var_os("HERMA_COUNTS")?).ok()?;
            Some(Self { file, counts: Mutex::default() })
        };
        COUNTING.get_or_init(open).as_ref()
    }

    /// Changes the counts in the file too: a reader of it needs nothing else from this process.
    fn add(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut counts);
        let _uncounted = self.file.write_all_at(&counts.to_bytes(), 0);
    }
}

/// Counts what this connection does from now on, if the process counts. Then it makes no automatic checkpoints.
pub fn watch(connection: &mut Connection) -> rusqlite::Result<()> {
    let Some(counting) = Counting::wanted() else { return Ok(()) };
    let events =
        TraceEventCodes::SQLITE_TRACE_STMT | TraceEventCodes::SQLITE_TRACE_PROFILE | TraceEventCodes::SQLITE_TRACE_ROW;
    connection.trace_v2(events, Some(move |event: TraceEvent<'_>| counting.add(|counts| count(&event, counts))))?;
    let mut before = 0;
    connection.wal_hook(Some(move |_: &mut Wal, frames: i32| {
        let frames = u64::from(frames.unsigned_abs());
        // The log has fewer frames than before if it began anew.
        let new = if frames > before { frames - before } else { frames };
        before = frames;
        counting.add(|counts| {
            counts.transactions += 1;
            counts.frames += new;
        });
        Ok(())
    }))
}

/// The status of a statement grows over its life, so its value at the beginning of a run is taken off.
fn count(event: &TraceEvent<'_>, counts: &mut Counts) {
    let machine_steps = |status: i32| u64::from(status.unsigned_abs());
    match event {
        // SQLite also reports the programs of triggers here, as comments.
        TraceEvent::Stmt(_, sql) if sql.starts_with("--") => {}
        TraceEvent::Stmt(statement, _) => {
            let before = machine_steps(statement.get_status(StatementStatus::VmStep));
            counts.machine_steps = counts.machine_steps.wrapping_sub(before);
        }
        TraceEvent::Profile(statement, _) => {
            let after = machine_steps(statement.get_status(StatementStatus::VmStep));
            counts.machine_steps = counts.machine_steps.wrapping_add(after);
            counts.steps += 1;
        }
        TraceEvent::Row(_) => counts.steps += 1,
        _ => {}
    }
}

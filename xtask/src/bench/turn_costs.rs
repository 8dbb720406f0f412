//! What a turn costs in counts, measured on servers that count.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::counting::{Callgrind, Counted, Counts};
use super::load::{Clients, Plan};
use super::statistics::median;
use super::testbed::{Target, Testbed};

/// Windows that are measured of each kind of turn. The median counts.
const WINDOWS: usize = 3;
/// What is left to do after an answer is done after this time, for example to note the delivery.
const SETTLE: Duration = Duration::from_millis(200);

/// A target twice: as a process that counts allocations and statements, and under callgrind.
pub(super) struct CountedTarget {
    target: Target,
    counted: Counted,
    /// `None` if valgrind is not installed.
    callgrind: Option<Callgrind>,
}

impl CountedTarget {
    /// Starts both processes, each on an empty data directory.
    pub(super) fn start(testbed: &Testbed, target: Target) -> io::Result<Self> {
        let data = |instrument: &str| testbed.directory(&format!("{}-{instrument}", target.name()));
        let (counts, profiles) = (data("counted"), data("callgrind"));
        let counted = Counted::start(&mut testbed.command(target, &counts)?, &counts)?;
        let callgrind = Callgrind::is_installed()
            .then(|| Callgrind::start(&testbed.command(target, &profiles)?, &profiles))
            .transpose()?;
        if target == Target::Herma {
            stop_indexing(&counts)?;
            callgrind.as_ref().map_or(Ok(()), |_| stop_indexing(&profiles))?;
        }
        Ok(Self { target, counted, callgrind })
    }

    /// What one turn allocates, asks SQLite and writes.
    pub(super) async fn counts(&self, plan: &Plan) -> io::Result<Counts> {
        let mut windows = Vec::new();
        for _ in 0..WINDOWS {
            let mut clients = Clients::open(self.counted.child().address(), self.target, plan).await?;
            tokio::time::sleep(SETTLE).await;
            let before = self.counted.read()?;
            let turns = clients.take_turns().await?.len();
            tokio::time::sleep(SETTLE).await;
            windows.push((self.counted.read()? - before) / turns as f64);
        }
        Ok(Counts::median(&windows))
    }

    /// Instructions in user space of one turn. `None` if valgrind is not installed.
    pub(super) async fn instructions(&mut self, plan: &Plan) -> io::Result<Option<f64>> {
        let Some(callgrind) = &mut self.callgrind else { return Ok(None) };
        let mut windows = Vec::new();
        for _ in 0..WINDOWS {
            let mut clients = Clients::open(callgrind.child().address(), self.target, plan).await?;
            tokio::time::sleep(SETTLE).await;
            let mut turns = 0;
            let counted = callgrind.count(async {
                turns = clients.take_turns().await?.len();
                tokio::time::sleep(SETTLE).await;
                Ok(())
            });
            let counted = counted.await?;
            windows.push(counted as f64 / turns as f64);
        }
        Ok(Some(median(&windows)))
    }
}

/// Claims the search index, as another process would. Herma writes it some time after the turns, and how much of it
/// falls into a window would depend on the time.
fn stop_indexing(data: &Path) -> io::Result<()> {
    let database = rusqlite::Connection::open(data.join("herma.db")).map_err(io::Error::other)?;
    // A claim of more than ten minutes does not count.
    let claim = "UPDATE search_state SET owner = 0, claimed_until = (unixepoch() + 540) * 1000";
    match database.execute(claim, []).map_err(io::Error::other)? {
        1 => Ok(()),
        _ => Err(io::Error::other("the search index has no owner to replace")),
    }
}

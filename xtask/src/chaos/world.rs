//! The two processes, their store and the model server behind them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use herma_testkit::{Client, Herma, Launch, ScriptedUpstream};
use tokio::sync::{Mutex, MutexGuard};

use super::history::Moment;
use super::model::Model;
use crate::workspace;

/// Tokens of the model's window: a conversation splits after some 15 turns.
const WINDOW: &str = "1500";
/// A window that no conversation of a run outgrows.
const WIDE_WINDOW: &str = "1000000";

/// Everything that a run stands on.
#[derive(Debug)]
pub(super) struct World {
    data: PathBuf,
    binary: PathBuf,
    window: &'static str,
    /// The API keys of the two tenants.
    keys: [String; 2],
    upstream: Mutex<ScriptedUpstream>,
    upstream_url: String,
    slots: [Slot; 2],
    started: Instant,
    logs: AtomicU64,
}

/// A process that dies and comes back.
#[derive(Debug, Default)]
struct Slot {
    process: Mutex<Option<Herma>>,
    /// Held by the one disturbance that the process has at a time.
    claim: Mutex<()>,
    /// Clients read the address without waiting for a process that is being disturbed.
    address: RwLock<String>,
}

impl World {
    /// Makes the store with two tenants and starts both processes.
    pub(super) async fn start(model: &Model, splits: bool) -> io::Result<Self> {
        // Kept until the run has ended well, so that a run that breaks off leaves its data too.
        let data = tempfile::Builder::new().prefix("herma-chaos-").tempdir()?.keep();
        let binary = std::env::current_exe()?.with_file_name("herma");
        let mut create = Command::new(&binary);
        create.args(["keys", "create", "--tenant", "other", "--data"]).arg(&data);
        let other = workspace::output(&mut create)?.trim().to_owned();
        let upstream = ScriptedUpstream::start().await;
        model.answer_at(&upstream);
        let upstream_url = upstream.base_url();
        let world = Self {
            data,
            binary,
            window: if splits { WINDOW } else { WIDE_WINDOW },
            keys: ["chaos-key".to_owned(), other],
            upstream: Mutex::new(upstream),
            upstream_url,
            slots: [Slot::default(), Slot::default()],
            started: Instant::now(),
            logs: AtomicU64::new(0),
        };
        world.revive().await;
        Ok(world)
    }

    /// Milliseconds since the start.
    pub(super) fn now(&self) -> Moment {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(Moment::MAX)
    }

    /// The data directory.
    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// A client of one process for one tenant. A process that is gone has its last address.
    pub(super) fn client(&self, server: usize, tenant: usize) -> Client {
        let address =
            self.slots[server].address.read().map_or_else(|broken| broken.into_inner().clone(), |url| url.clone());
        Client::new(address).key(&self.keys[tenant])
    }

    /// Waits until nothing else disturbs a process, and keeps it so until the guard is dropped.
    pub(super) async fn claim(&self, server: usize) -> MutexGuard<'_, ()> {
        self.slots[server].claim.lock().await
    }

    /// `SIGKILL`. The process stays away until [`revive`](Self::revive).
    pub(super) async fn kill(&self, server: usize) {
        if let Some(mut herma) = self.slots[server].process.lock().await.take() {
            herma.kill();
            self.keep_log(server, &herma);
        }
    }

    /// `SIGTERM`, and the end of the process.
    pub(super) async fn drain(&self, server: usize) {
        if let Some(mut herma) = self.slots[server].process.lock().await.take() {
            herma.terminate();
            let _status = herma.wait().await;
            self.keep_log(server, &herma);
        }
    }

    /// `SIGSTOP`.
    pub(super) async fn pause(&self, server: usize) {
        if let Some(herma) = &*self.slots[server].process.lock().await {
            herma.pause();
        }
    }

    /// `SIGCONT`.
    pub(super) async fn resume(&self, server: usize) {
        if let Some(herma) = &*self.slots[server].process.lock().await {
            herma.resume();
        }
    }

    /// Starts every process that is gone.
    pub(super) async fn revive(&self) {
        for slot in &self.slots {
            let mut process = slot.process.lock().await;
            if process.is_none() {
                let launch = Launch::serve(&self.binary).upstream(&self.upstream_url).key(&self.keys[0]);
                let launch = launch.args(["--context-window", self.window]).data(&self.data);
                let herma = launch.start().await;
                if let Ok(mut address) = slot.address.write() {
                    herma.base_url().clone_into(&mut address);
                }
                *process = Some(herma);
            }
        }
    }

    /// Waits until the model server writes no answer any more.
    pub(super) async fn until_idle(&self) {
        self.upstream.lock().await.until_open(0).await;
    }

    /// A fresh model server at the same address: the old one keeps every request in memory.
    pub(super) async fn renew_upstream(&self, model: &Model) {
        let mut upstream = self.upstream.lock().await;
        let address = upstream.address();
        let old = std::mem::replace(&mut *upstream, ScriptedUpstream::start().await);
        old.stop().await;
        *upstream = ScriptedUpstream::start_at(address).await;
        model.answer_at(&upstream);
    }

    /// Ends both processes, and keeps or removes the data directory with the logs.
    pub(super) async fn end(&self, keeps: bool) -> io::Result<()> {
        for server in 0..self.slots.len() {
            self.kill(server).await;
        }
        if keeps { Ok(()) } else { std::fs::remove_dir_all(&self.data) }
    }

    /// Writes what a process said beside the data.
    fn keep_log(&self, server: usize, herma: &Herma) {
        let number = self.logs.fetch_add(1, Ordering::Relaxed);
        let path = self.data.join(format!("process-{server}-{number}.log"));
        // A log that cannot be written is no finding of the run.
        let _written = std::fs::write(path, herma.stderr());
    }
}

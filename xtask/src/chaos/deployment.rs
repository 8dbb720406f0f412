//! Two processes, their common store and the model server.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use herma_testkit::{Client, Herma, Launch, McpServer, ScriptedUpstream};
use tokio::sync::{Mutex, MutexGuard};

use super::history::Moment;
use super::model::Model;
use crate::workspace;

/// Context window in tokens. With it a conversation splits after about 15 turns.
const WINDOW: &str = "1500";
/// A context window that no conversation of a run outgrows.
const WIDE_WINDOW: &str = "1000000";

/// The configuration of both processes, in the data directory.
const CONFIG: &str = "chaos.toml";
/// The file to which the tool server adds a line for each call.
const EXECUTIONS: &str = "executions";

/// The configuration of the one tool server.
fn configuration(tools: &McpServer, executions: &Path) -> String {
    let args: Vec<String> = tools.args().iter().map(|arg| format!("{arg:?}")).collect();
    format!(
        "[tools.mcp.chaos]\ncommand = {:?}\nargs = [{}]\nallow = [\"count\"]\napproval = \"auto\"\n\
         env = {{ COUNT_FILE = {:?} }}\n",
        tools.command(),
        args.join(", "),
        executions.display().to_string(),
    )
}

/// All servers of a run, and their data directory.
#[derive(Debug)]
pub(super) struct Deployment {
    data: PathBuf,
    binary: PathBuf,
    window: &'static str,
    /// The API keys of the two tenants.
    keys: [String; 2],
    upstream: Mutex<ScriptedUpstream>,
    upstream_url: String,
    /// The script of the tool server, which each process starts for itself.
    _tools: McpServer,
    slots: [Slot; 2],
    started: Instant,
    logs: AtomicU64,
}

/// A process that is killed and started again.
#[derive(Debug, Default)]
struct Slot {
    process: Mutex<Option<Herma>>,
    /// The lock for disturbing the process: it has at most one disturbance at a time.
    claim: Mutex<()>,
    /// Has a lock of its own, so that clients can read it while `process` is locked.
    address: RwLock<String>,
}

impl Deployment {
    /// Creates the store with two tenants and starts both processes.
    pub(super) async fn start(model: &Model, splits: bool) -> io::Result<Self> {
        // The directory must outlive a run that panics, so only `end` removes it.
        let data = tempfile::Builder::new().prefix("herma-chaos-").tempdir()?.keep();
        let binary = std::env::current_exe()?.with_file_name("herma");
        let mut create = Command::new(&binary);
        create.args(["keys", "create", "--tenant", "other", "--data"]).arg(&data);
        let other = workspace::output(&mut create)?.trim().to_owned();
        let upstream = ScriptedUpstream::start().await;
        model.answer_at(&upstream);
        let upstream_url = upstream.base_url();
        let tools = McpServer::stdio();
        std::fs::write(data.join(CONFIG), configuration(&tools, &data.join(EXECUTIONS)))?;
        let deployment = Self {
            data,
            binary,
            window: if splits { WINDOW } else { WIDE_WINDOW },
            keys: ["chaos-key".to_owned(), other],
            upstream: Mutex::new(upstream),
            upstream_url,
            _tools: tools,
            slots: [Slot::default(), Slot::default()],
            started: Instant::now(),
            logs: AtomicU64::new(0),
        };
        deployment.revive().await;
        Ok(deployment)
    }

    pub(super) fn now(&self) -> Moment {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(Moment::MAX)
    }

    /// The ids of the tool calls that were carried out, in order.
    pub(super) fn executions(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.data.join(EXECUTIONS)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    /// A client of one process for one tenant. If the process has ended, the client has its last address.
    pub(super) fn client(&self, server: usize, tenant: usize) -> Client {
        let address =
            self.slots[server].address.read().map_or_else(|broken| broken.into_inner().clone(), |url| url.clone());
        Client::new(address).key(&self.keys[tenant])
    }

    /// Waits until no other disturbance of this process is active. The guard keeps others away.
    pub(super) async fn claim(&self, server: usize) -> MutexGuard<'_, ()> {
        self.slots[server].claim.lock().await
    }

    /// Sends `SIGKILL`. The process stays down until [`revive`](Self::revive).
    pub(super) async fn kill(&self, server: usize) {
        if let Some(mut herma) = self.slots[server].process.lock().await.take() {
            herma.kill();
            self.keep_log(server, &herma);
        }
    }

    /// Sends `SIGTERM` and waits for the end of the process.
    pub(super) async fn drain(&self, server: usize) {
        if let Some(mut herma) = self.slots[server].process.lock().await.take() {
            herma.terminate();
            let _status = herma.wait().await;
            self.keep_log(server, &herma);
        }
    }

    /// Sends `SIGSTOP`.
    pub(super) async fn pause(&self, server: usize) {
        if let Some(herma) = &*self.slots[server].process.lock().await {
            herma.pause();
        }
    }

    /// Sends `SIGCONT`.
    pub(super) async fn resume(&self, server: usize) {
        if let Some(herma) = &*self.slots[server].process.lock().await {
            herma.resume();
        }
    }

    /// Starts each process that is down.
    pub(super) async fn revive(&self) {
        for slot in &self.slots {
            let mut process = slot.process.lock().await;
            if process.is_none() {
                let launch = Launch::serve(&self.binary).upstream(&self.upstream_url).key(&self.keys[0]);
                let launch = launch.args(["--context-window", self.window]).data(&self.data);
                let launch = launch.env("HERMA_CONFIG", self.data.join(CONFIG));
                let herma = launch.start().await;
                if let Ok(mut address) = slot.address.write() {
                    herma.base_url().clone_into(&mut address);
                }
                *process = Some(herma);
            }
        }
    }

    /// Waits until the model server has no open answer.
    pub(super) async fn until_idle(&self) {
        self.upstream.lock().await.until_open(0).await;
    }

    /// Replaces the model server at the same address, because the old one keeps every request in memory.
    pub(super) async fn renew_upstream(&self, model: &Model) {
        let mut upstream = self.upstream.lock().await;
        let address = upstream.address();
        let old = std::mem::replace(&mut *upstream, ScriptedUpstream::start().await);
        old.stop().await;
        *upstream = ScriptedUpstream::start_at(address).await;
        model.answer_at(&upstream);
    }

    /// Ends both processes. Removes the data directory with the logs unless `keeps` is set.
    pub(super) async fn end(&self, keeps: bool) -> io::Result<()> {
        for server in 0..self.slots.len() {
            self.kill(server).await;
        }
        if keeps { Ok(()) } else { std::fs::remove_dir_all(&self.data) }
    }

    /// Writes the log of a process into the data directory.
    fn keep_log(&self, server: usize, herma: &Herma) {
        let number = self.logs.fetch_add(1, Ordering::Relaxed);
        let path = self.data.join(format!("process-{server}-{number}.log"));
        // The result of the run does not depend on this log.
        let _written = std::fs::write(path, herma.stderr());
    }
}

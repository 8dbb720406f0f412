//! A server as a child process: its own process group, its output watched, gone when dropped.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::DuplexStream;
use tokio::process::{Child, ChildStdin, Command};

use super::lines;
use super::notes::Notes;
use crate::secrets::Secrets;

/// How long a process may take to end after its stdin was closed.
const GRACE: Duration = Duration::from_secs(1);
const PIPE: usize = 64 * 1024;

/// A running child. Dropping it kills its process group.
pub(super) struct Process {
    child: Child,
    notes: Arc<Notes>,
    /// The process is the leader of its group, so that both have one id.
    #[cfg(unix)]
    group: Option<rustix::process::Pid>,
    ended: bool,
}

/// The two ends that the protocol is spoken on.
pub(super) struct Pipes {
    pub(super) messages: DuplexStream,
    pub(super) stdin: ChildStdin,
}

impl Process {
    /// Starts a command with Herma's environment and the given variables.
    pub(super) fn start(
        label: &str,
        command: &str,
        args: &[String],
        env: &[(String, String)],
        directory: Option<&Path>,
        secrets: &Secrets,
    ) -> Result<(Self, Pipes), String> {
        let mut line = Command::new(command);
        line.args(args);
        if let Some(directory) = directory {
            line.current_dir(directory);
        }
        // Herma's own settings hold keys, which are none of the server's business.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"HERMA_")) {
            line.env_remove(name);
        }
        line.envs(env.iter().map(|(name, value)| (name, value)));
        line.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        line.process_group(0);
        let mut child = line.spawn().map_err(|error| not_started(label, command, &error))?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(format!("The MCP server `{label}` has no pipes."));
        };
        let notes = Arc::new(Notes::new(label, secrets.clone()));
        // Both tasks end with the process: then its pipes close.
        let listening = notes.clone();
        tokio::spawn(async move { listening.read(stderr).await });
        let (messages, copied) = tokio::io::duplex(PIPE);
        let watching = notes.clone();
        tokio::spawn(async move { lines::copy(stdout, copied, &watching).await });
        #[cfg(unix)]
        let group = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        let process = Self {
            child,
            notes,
            #[cfg(unix)]
            group,
            ended: false,
        };
        Ok((process, Pipes { messages, stdin }))
    }

    /// What the process said beside the protocol.
    pub(super) fn notes(&self) -> Arc<Notes> {
        self.notes.clone()
    }

    /// Waits for the end of the process. Cancel-safe.
    pub(super) async fn exited(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// The exit status, if the process ends within a moment.
    pub(super) async fn exit_status(&mut self) -> Option<ExitStatus> {
        tokio::time::timeout(Duration::from_millis(300), self.exited()).await.ok().flatten()
    }

    /// Lets the process end by itself for a moment, then kills it and all that it started. Its stdin must be closed.
    pub(super) async fn end(mut self) {
        drop(tokio::time::timeout(GRACE, self.exited()).await);
        self.kill();
        drop(self.child.wait().await);
        self.ended = true;
    }

    /// Kills the whole group: a wrapper such as `npx` leaves its own children behind.
    fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.group {
            // Fails if the group is empty.
            let _empty = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        drop(self.child.start_kill());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended {
            self.kill();
        }
    }
}

fn not_started(label: &str, command: &str, error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::NotFound {
        format!(
            "The command `{command}` of the MCP server `{label}` was not found. Install it, or correct `command` in \
             [tools.mcp.{label}]."
        )
    } else {
        format!(
            "The command `{command}` of the MCP server `{label}` could not be started: {error}. Correct `command` in \
             [tools.mcp.{label}]."
        )
    }
}

//! Instructions of a server, counted by valgrind's callgrind only while turns run.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::child::Child;
use crate::workspace::output;

/// A server under callgrind. It begins without counting.
#[derive(Debug)]
pub(in crate::bench) struct Callgrind {
    child: Child,
    /// The profiles that it has written have this path, a dot and a number.
    profiles: PathBuf,
    written: usize,
}

impl Callgrind {
    /// Whether valgrind is installed.
    pub(in crate::bench) fn is_installed() -> bool {
        output(Command::new("valgrind").arg("--version")).is_ok()
    }

    /// Starts a server. Its profiles go to this directory.
    pub(in crate::bench) fn start(server: &Command, directory: &Path) -> io::Result<Self> {
        let profiles = directory.join("callgrind");
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--instr-atstart=no"]);
        command.arg(format!("--callgrind-out-file={}", profiles.display()));
        command.arg(server.get_program()).args(server.get_args());
        for (name, value) in server.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ok(Self { child: Child::start(&mut command)?, profiles, written: 0 })
    }

    pub(in crate::bench) fn child(&self) -> &Child {
        &self.child
    }

    /// Instructions that all threads execute in user space while this work is done.
    pub(in crate::bench) async fn count<T>(&mut self, work: impl Future<Output = io::Result<T>>) -> io::Result<u64> {
        self.control(&["--instr=on"])?;
        let done = work.await;
        self.control(&["--instr=off"])?;
        done?;
        self.control(&["--dump"])?;
        self.written += 1;
        let profile = std::fs::read_to_string(format!("{}.{}", self.profiles.display(), self.written))?;
        let total = profile.lines().find_map(|line| line.strip_prefix("totals: "));
        let total = total.and_then(|total| total.trim().parse().ok());
        total.ok_or_else(|| io::Error::other("callgrind wrote a profile without a total"))
    }

    fn control(&self, arguments: &[&str]) -> io::Result<()> {
        output(Command::new("callgrind_control").args(arguments).arg(self.child.id().to_string())).map(drop)
    }
}

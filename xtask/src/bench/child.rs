//! A server as a child process: its address, its CPU time, its memory.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Each server prints this when it accepts connections. The address follows.
const READY: &str = "listening on http://";

/// How long a server may take to get ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running server, killed when dropped.
#[derive(Debug)]
pub(super) struct Child {
    process: Process,
    address: SocketAddr,
    started: Instant,
    ready_after: Duration,
}

impl Child {
    /// Starts a command and waits for its ready line.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        let started = Instant::now();
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = process.stderr.take().ok_or_else(|| io::Error::other("stderr is not piped"))?;
        match await_ready(stderr) {
            Ok(address) => Ok(Self { process, address, started, ready_after: started.elapsed() }),
            Err(error) => {
                let _already_gone = process.kill();
                let _status = process.wait();
                Err(io::Error::other(format!("{command:?}: {error}")))
            }
        }
    }

    /// The command of one of this binary's own servers.
    pub(super) fn own(task: &str, arguments: &[&str]) -> io::Result<Command> {
        let mut own = Command::new(std::env::current_exe()?);
        own.arg(task).args(arguments);
        Ok(own)
    }

    /// The command of Herma's release binary, which is in the same directory as this one.
    pub(super) fn herma(upstream: &str, data: &Path, settings: &[(&str, &str)]) -> io::Result<Command> {
        Ok(Self::herma_of(&release_binary()?, upstream, data, settings))
    }

    /// The command of any binary of Herma.
    pub(super) fn herma_of(binary: &Path, upstream: &str, data: &Path, settings: &[(&str, &str)]) -> Command {
        let mut herma = without_settings(binary);
        herma.args(["serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--model", "bench", "--data"]);
        herma.arg(data).env("HERMA_API_KEY", super::load::KEY).envs(settings.iter().copied());
        herma
    }

    /// The command of Herma's agent for editors, of the release binary.
    pub(super) fn editor(upstream: &str, data: &Path) -> io::Result<Command> {
        let mut herma = without_settings(&release_binary()?);
        herma.args(["acp", "--data"]).arg(data).envs([("HERMA_UPSTREAM", upstream), ("HERMA_MODEL", "bench")]);
        Ok(herma)
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// The time from its start to its ready line.
    pub(super) fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// CPU time of its threads so far.
    pub(super) fn cpu(&self) -> io::Result<CpuTimes> {
        let mut times = HashMap::new();
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            let path = thread?.path().join("schedstat");
            // A thread may end between the listing and the reading.
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let spent = text.split(' ').next().and_then(|spent| spent.parse().ok()).map(Duration::from_nanos);
            times.insert(path, spent.ok_or_else(|| io::Error::other(format!("unexpected schedstat: {text}")))?);
        }
        Ok(CpuTimes(times))
    }

    /// Resident memory in bytes.
    pub(super) fn resident(&self) -> io::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("no VmRSS"))
    }
}

fn release_binary() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("herma"))
}

/// A command without the settings of this process.
fn without_settings(binary: &Path) -> Command {
    let mut herma = Command::new(binary);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMA_")) {
        herma.env_remove(name);
    }
    herma
}

impl Drop for Child {
    fn drop(&mut self) {
        let _already_gone = self.process.kill();
        let _status = self.process.wait();
    }
}

/// CPU time by thread, in nanoseconds. The times of the whole process are only in hundredths of a second.
#[derive(Debug)]
pub(super) struct CpuTimes(HashMap<PathBuf, Duration>);

impl CpuTimes {
    /// CPU time since an earlier reading. A thread that has ended is not counted: runtimes end only idle threads.
    pub(super) fn since(&self, earlier: &Self) -> Duration {
        let spent = |(thread, now): (&PathBuf, &Duration)| {
            now.saturating_sub(earlier.0.get(thread).copied().unwrap_or_default())
        };
        self.0.iter().map(spent).sum()
    }
}

/// Reads the address from the ready line. A thread reads all later lines too, because a full pipe would block the
/// server.
fn await_ready(stderr: ChildStderr) -> io::Result<SocketAddr> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let _ready_already = sender.send(line);
        }
    });
    let deadline = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if let Some((_, address)) = line.split_once(READY) {
            return address.trim().parse().map_err(io::Error::other);
        }
        said.push(line);
    }
    Err(io::Error::other(format!("it did not get ready: {}", said.join(" | "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_counted_for_old_and_new_threads_and_not_for_ended_ones() {
        let times = |threads: &[(&str, u64)]| {
            CpuTimes(threads.iter().map(|(name, nanos)| (PathBuf::from(name), Duration::from_nanos(*nanos))).collect())
        };
        let (before, after) = (times(&[("a", 100), ("gone", 500)]), times(&[("a", 250), ("new", 30)]));
        assert_eq!(after.since(&before), Duration::from_nanos(180));
    }

    #[test]
    fn a_program_that_never_gets_ready_says_what_it_said() {
        let error = Child::start(Command::new("sh").args(["-c", "echo no port >&2"])).unwrap_err();
        assert!(error.to_string().ends_with("it did not get ready: no port"), "{error}");
    }

    #[test]
    fn the_ready_line_may_come_after_others() {
        let script = "echo starting >&2; echo 'x listening on http://127.0.0.1:42' >&2; exec sleep 60";
        let child = Child::start(Command::new("sh").args(["-c", script])).unwrap();
        assert_eq!(child.address().port(), 42);
        assert!(child.resident().unwrap() > 0);
    }
}

//! A server as a child process: its address, its CPU time, its memory.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child as Process, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// The kernel counts CPU time for `/proc` in hundredths of a second on every Linux platform we run on.
const TICK: Duration = Duration::from_millis(10);

/// Every server here says this when it takes connections, followed by `http://HOST:PORT`.
const READY: &str = "listening on http://";

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

    /// Starts a server of this very binary.
    pub(super) fn start_own(task: &str, arguments: &[&str]) -> io::Result<Self> {
        Self::start(Command::new(std::env::current_exe()?).arg(task).args(arguments))
    }

    /// Starts Herma's release binary, which is built beside this one.
    pub(super) fn start_herma(upstream: &str, data: &Path) -> io::Result<Self> {
        let mut herma = Command::new(std::env::current_exe()?.with_file_name("herma"));
        herma.args(["serve", "--listen", "127.0.0.1:0", "--upstream", upstream, "--model", "bench", "--data"]);
        Self::start(herma.arg(data).env("HERMA_API_KEY", super::load::KEY))
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// When it was started.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// From its start to its ready line.
    pub(super) fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// CPU time of all its threads, also of those that have ended.
    pub(super) fn cpu(&self) -> io::Result<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        cpu_ticks(&stat).map(|ticks| TICK * ticks).ok_or_else(|| io::Error::other(format!("unexpected stat: {stat}")))
    }

    /// Resident memory in bytes.
    pub(super) fn resident(&self) -> io::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).and_then(|kib| kib.trim().parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("no VmRSS"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _already_gone = self.process.kill();
        let _status = self.process.wait();
    }
}

/// User and system time, the 14th and 15th field; the second may contain spaces and ends with a parenthesis.
fn cpu_ticks(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<u32>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

fn await_ready(stderr: ChildStderr) -> io::Result<SocketAddr> {
    let mut reader = BufReader::new(stderr);
    let mut said = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::Error::other(format!("it ended before it was ready: {}", said.trim())));
        }
        if let Some((_, address)) = line.split_once(READY) {
            let address = address.trim().parse().map_err(io::Error::other)?;
            // A full pipe would stop the server.
            std::thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
            return Ok(address);
        }
        said.push_str(&line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_past_a_name_with_spaces() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 3 0 1234 1 1";
        assert_eq!(cpu_ticks(stat), Some(300));
    }
}

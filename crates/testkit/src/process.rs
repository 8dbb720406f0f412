//! Runs the `herma` binary as a child process that a test can watch, kill, stop and restart.
//!
//! The caller gives the path (`env!("CARGO_BIN_EXE_herma")`), so that this crate does not depend on what it tests.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::sync::watch;

use crate::{Client, PATIENCE};

const READY: &str = "herma listening on ";

/// How to start a child.
#[derive(Debug, Clone)]
pub struct Launch {
    binary: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    data: Option<PathBuf>,
    key: Option<String>,
}

impl Launch {
    /// `herma serve` on a free loopback port with key `test-key`. Without [`Launch::data`] it gets a new data
    /// directory.
    pub fn serve(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            arguments: ["serve", "--listen", "127.0.0.1:0"].map(OsString::from).to_vec(),
            environment: Vec::new(),
            data: None,
            key: Some("test-key".to_owned()),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<T: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable. `HERMA_*` variables of the test's environment are not passed on.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Uses a data directory that outlives the child.
    #[must_use]
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Some(directory.into());
        self
    }

    /// Uses an upstream, `http://HOST:PORT/v1`.
    #[must_use]
    pub fn upstream(self, base_url: &str) -> Self {
        self.args(["--upstream", base_url, "--model", "scripted"])
    }

    /// Accepts this API key in place of `test-key`.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Gives no API key.
    #[must_use]
    pub fn without_key(mut self) -> Self {
        self.key = None;
        self
    }

    /// Starts the child and waits for its ready line. Fails the test if the child ends before that.
    pub async fn start(self) -> Herma {
        match self.try_start().await {
            Ok(herma) => herma,
            Err(ended) => panic!("herma ended with {} before it was ready:\n{}", ended.status, ended.stderr),
        }
    }

    /// Starts the child and waits for its ready line. An error if the child ends before that.
    pub async fn try_start(self) -> Result<Herma, Ended> {
        let own = self.data.is_none().then(|| TempDir::new().expect("a temporary directory"));
        let data = self.data.clone().or_else(|| own.as_ref().map(|own| own.path().to_owned())).expect("a directory");
        let mut herma = self.spawn(data, own);
        let started = Instant::now();
        let mut output = herma.output.subscribe();
        let ready = output.wait_for(|output| output.closed || output.ready().is_some());
        let ready = tokio::time::timeout(PATIENCE, ready).await.map(|output| output.ok().and_then(|now| now.ready()));
        match ready {
            Ok(Some(url)) => {
                herma.base_url = url;
                herma.ready_after = started.elapsed();
                Ok(herma)
            }
            Ok(None) => Err(herma.ended().await),
            Err(_) => panic!("herma was not ready in time:\n{}", herma.stderr()),
        }
    }

    fn spawn(&self, data: PathBuf, own: Option<TempDir>) -> Herma {
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMA_")) {
            command.env_remove(name);
        }
        if let Some(key) = &self.key {
            command.env("HERMA_API_KEY", key);
        }
        command.args(&self.arguments).arg("--data").arg(&data);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.binary.display()));
        let stderr = child.stderr.take().expect("stderr is piped");
        let output = watch::Sender::new(Output::default());
        let collected = output.clone();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stderr);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                collected.send_modify(|output| output.text.push_str(&String::from_utf8_lossy(&line)));
                line.clear();
            }
            collected.send_modify(|output| output.closed = true);
        });
        let (base_url, ready_after) = (String::new(), Duration::ZERO);
        Herma { child, output, base_url, ready_after, key: self.key.clone(), data, _own: own }
    }
}

/// A running child. Dropping it kills the child and removes the data directory that [`Launch`] made for it.
#[derive(Debug)]
pub struct Herma {
    child: Child,
    output: watch::Sender<Output>,
    base_url: String,
    ready_after: Duration,
    key: Option<String>,
    data: PathBuf,
    _own: Option<TempDir>,
}

impl Herma {
    /// `http://HOST:PORT`, from the ready line.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The time from the start of the process to its ready line.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A client with the key the child was started with.
    pub fn client(&self) -> Client {
        let client = Client::new(self.base_url.clone());
        match &self.key {
            Some(key) => client.key(key),
            None => client,
        }
    }

    /// Everything written to stderr so far.
    pub fn stderr(&self) -> String {
        self.output.borrow().text.clone()
    }

    /// Waits until stderr contains a text. Cancel-safe.
    pub async fn until_stderr(&self, text: &str) {
        let mut output = self.output.subscribe();
        let seen = output.wait_for(|output| output.closed || output.text.contains(text));
        let _result = tokio::time::timeout(PATIENCE, seen).await;
        assert!(self.stderr().contains(text), "expected {text:?} in stderr:\n{}", self.stderr());
    }

    /// Kills the process (`kill -9`) and returns when it has ended.
    pub fn kill(&mut self) {
        let _already_gone = self.child.kill();
        let _status = self.child.wait();
    }

    /// Sends `SIGTERM`, which asks the process to drain and end.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends `SIGSTOP`. The process stops running but keeps its locks and sockets.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Sends `SIGCONT`. A paused process continues.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Waits for the end of the process. Cancel-safe.
    pub async fn wait(&mut self) -> ExitStatus {
        let mut output = self.output.subscribe();
        // The end of stderr marks the end of the process. So no other thread has to wait for the child.
        let closed = tokio::time::timeout(PATIENCE, output.wait_for(|output| output.closed)).await;
        assert!(closed.is_ok(), "herma did not end in time; its stderr:\n{}", self.stderr());
        self.child.wait().expect("a child's status")
    }

    async fn ended(mut self) -> Ended {
        let status = self.wait().await;
        Ended { status, stderr: self.stderr() }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status();
        assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {}", self.pid());
    }
}

impl Drop for Herma {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The end of a child that was never ready.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Everything that it wrote to stderr.
    pub stderr: String,
}

#[derive(Debug, Default)]
struct Output {
    text: String,
    closed: bool,
}

impl Output {
    /// The address in the ready line. `None` until the whole line was read.
    fn ready(&self) -> Option<String> {
        let (_, rest) = self.text.split_once(READY)?;
        let (line, _) = rest.split_once('\n')?;
        Some(line.trim_end().to_owned())
    }
}

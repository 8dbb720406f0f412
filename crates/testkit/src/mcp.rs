//! A real MCP server for tests, over stdio or streamable HTTP: a Python script that tests choose the behaviour of.
//!
//! Its tools and options are described in `mcp_server.py`. It needs `python3` and nothing else.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::PATIENCE;

const SCRIPT: &str = include_str!("mcp_server.py");

/// The server's tool whose name is longer than OpenAI allows.
pub const LONG_TOOL: &str =
    concat!("tool_with_a_very_long_name_", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");

/// A server: its command for a configuration, or a running process that listens on a loopback port.
#[derive(Debug)]
pub struct McpServer {
    directory: TempDir,
    args: Vec<String>,
    running: Option<(Child, u16)>,
}

impl McpServer {
    /// A server over stdio, to be started by Herma from [`Self::command`] and [`Self::args`]. Lives as long as this
    /// value.
    pub fn stdio() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let script = directory.path().join("mcp_server.py");
        std::fs::write(&script, SCRIPT).expect("a script");
        let log = directory.path().join("log");
        let args = vec![shown(&script), "--log".to_owned(), shown(&log)];
        Self { directory, args, running: None }
    }

    /// A running server over streamable HTTP. Killed when dropped.
    pub async fn http() -> Self {
        Self::http_with(&[]).await
    }

    /// A running server over streamable HTTP with options of the script.
    pub async fn http_with(options: &[&str]) -> Self {
        let mut server = Self::stdio().with(&["--http"]).with(options);
        server.start(0);
        server
    }

    /// A running server over streamable HTTP with TLS, by a certificate of an authority of its own. Needs `openssl`.
    pub async fn https() -> Self {
        let server = Self::stdio();
        certificates(server.directory());
        let directory = shown(server.directory());
        let mut server = server.with(&["--http", "--tls", &directory]);
        server.start(0);
        server
    }

    /// The certificate of the authority that a server over TLS has its certificate from.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// Adds options of the script.
    #[must_use]
    pub fn with(mut self, options: &[&str]) -> Self {
        self.args.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// The program of a server over stdio.
    pub fn command(&self) -> String {
        "python3".to_owned()
    }

    /// Its arguments.
    pub fn args(&self) -> Vec<String> {
        self.args.clone()
    }

    /// The endpoint of a server over HTTP.
    pub fn url(&self) -> String {
        let (_, port) = self.running.as_ref().expect("a server that listens");
        let scheme = if self.args.iter().any(|arg| arg == "--tls") { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{port}/mcp")
    }

    /// Kills a server over HTTP; its address stays the same for [`Self::restart`].
    pub fn kill(&mut self) {
        if let Some((child, _)) = &mut self.running {
            let _already_gone = child.kill();
            let _status = child.wait();
        }
    }

    /// Starts a server over HTTP again on the same port.
    pub fn restart(&mut self) {
        self.kill();
        let port = self.running.as_ref().map_or(0, |(_, port)| *port);
        self.start(port);
    }

    /// What the server has noted: `start`, `pid N`, `initialize`, `call NAME`, `cancelled`, `slow ended`, each a line.
    pub fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// How often the server has noted a line.
    pub fn logged(&self, line: &str) -> usize {
        self.log().iter().filter(|one| *one == line).count()
    }

    /// Waits until the server has noted a line. Cancel-safe.
    pub async fn until_logged(&self, line: &str) {
        let begun = Instant::now();
        while self.logged(line) == 0 {
            assert!(begun.elapsed() < PATIENCE, "{line:?} was to be noted, there is {:?}", self.log());
            // Another process writes the file; nothing tells when. A blocking pause also works on a paused clock.
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The process ids of all that were started from this server.
    pub fn pids(&self) -> Vec<u32> {
        self.log().iter().filter_map(|line| line.strip_prefix("pid ")?.parse().ok()).collect()
    }

    /// The server's own directory, for files of a test.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn start(&mut self, port: u16) {
        let mut command = Command::new(self.command());
        command.args(&self.args).args(["--port", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("python3 has to be installed");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let port = line.trim().strip_prefix("listening ").and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("the server was to listen, it said {line:?}"));
        self.running = Some((child, port));
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes a certificate authority, and a certificate of it for this machine.
fn certificates(directory: &Path) {
    let extensions = "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
    std::fs::write(directory.join("extensions"), extensions).expect("a file");
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    for arguments in [
        format!("req -x509 {key} -days 2 -subj /CN=authority -keyout authority.key -out authority.pem"),
        format!("req {key} -subj /CN=server -keyout server.key -out server.csr"),
        "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 -extfile extensions \
         -out server.pem"
            .to_owned(),
    ] {
        let mut openssl = Command::new("openssl");
        let made = openssl.args(arguments.split_whitespace()).current_dir(directory).stderr(Stdio::null()).status();
        assert!(made.expect("openssl has to be installed").success(), "openssl {arguments}");
    }
}

fn shown(path: &Path) -> String {
    PathBuf::from(path).into_os_string().into_string().expect("a path in UTF-8")
}

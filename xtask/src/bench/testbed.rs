//! The processes of a measurement: the upstream and the targets, started together.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::child::{Child, CpuTimes};

/// A server that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The upstream itself, without a gateway.
    Direct,
    /// The bare proxy.
    Proxy,
    /// The durable floor.
    Floor,
    Herma,
    /// Another binary of Herma, which only `--before` adds.
    Before,
}

impl Target {
    /// The usual targets, in the order of the report.
    pub(super) const ALL: [Self; 4] = [Self::Direct, Self::Proxy, Self::Floor, Self::Herma];

    /// Its name in the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Proxy => "proxy",
            Self::Floor => "floor",
            Self::Herma => "herma",
            Self::Before => "before",
        }
    }

    /// Whether the server stores the history, so that a request has only the new message.
    pub(super) const fn keeps_history(self) -> bool {
        matches!(self, Self::Floor | Self::Herma | Self::Before)
    }
}

/// The running servers. Their data is in the build directory, because the usual temporary directory may be in memory,
/// where a commit costs less.
#[derive(Debug)]
pub(super) struct Testbed {
    upstream: Child,
    servers: Vec<Server>,
    data: TempDir,
    /// The binary of [`Target::Before`].
    before: Option<PathBuf>,
}

/// One target and its process. `direct` has none of its own and uses the upstream.
#[derive(Debug)]
pub(super) struct Server {
    target: Target,
    child: Option<Child>,
}

impl Testbed {
    /// Starts the upstream and the targets, each with an empty data directory.
    pub(super) fn start(targets: &[Target]) -> io::Result<Self> {
        Self::start_beside(targets, None)
    }

    /// The same, with another binary of Herma as one more target, if there is one.
    pub(super) fn start_beside(targets: &[Target], before: Option<&Path>) -> io::Result<Self> {
        let beside = std::env::current_exe()?;
        let beside = beside.parent().unwrap_or(Path::new("."));
        let data = tempfile::Builder::new().prefix("bench-").tempdir_in(beside)?;
        let upstream = Child::start(&mut Child::own("bench-upstream", &[])?)?;
        let mut testbed = Self { upstream, servers: Vec::new(), data, before: before.map(Path::to_owned) };
        for &target in targets.iter().chain(before.map(|_| &Target::Before)) {
            let child = match target {
                Target::Direct => None,
                _ => Some(testbed.launch(target, target.name())?),
            };
            testbed.servers.push(Server { target, child });
        }
        Ok(testbed)
    }

    /// Starts one more process of a target on a data directory with this name. The directory may exist already.
    pub(super) fn launch(&self, target: Target, data: &str) -> io::Result<Child> {
        Child::start(&mut self.command(target, &self.directory(data))?)
    }

    /// The command that starts a target on this data directory. Makes the directory.
    pub(super) fn command(&self, target: Target, data: &Path) -> io::Result<Command> {
        std::fs::create_dir_all(data)?;
        let upstream = self.upstream_url();
        match target {
            Target::Direct => Child::own("bench-upstream", &[]),
            Target::Proxy => Child::own("bench-proxy", &[&upstream]),
            Target::Floor => Child::own("bench-floor", &[&upstream, &data.to_string_lossy()]),
            Target::Herma => Child::herma(&upstream, data, &[]),
            Target::Before => {
                let binary = self.before.as_deref().ok_or_else(|| io::Error::other("--before names no binary"))?;
                Ok(Child::herma_of(binary, &upstream, data, &[]))
            }
        }
    }

    fn upstream_url(&self) -> String {
        format!("http://{}/v1", self.upstream.address())
    }

    /// Starts Herma with these environment variables on a data directory with this name.
    pub(super) fn launch_herma(&self, data: &str, settings: &[(&str, &str)]) -> io::Result<Child> {
        self.launch_herma_on(&self.directory(data), settings)
    }

    /// Starts Herma with these environment variables on any data directory.
    pub(super) fn launch_herma_on(&self, data: &Path, settings: &[(&str, &str)]) -> io::Result<Child> {
        std::fs::create_dir_all(data)?;
        Child::start(&mut Child::herma(&self.upstream_url(), data, settings)?)
    }

    /// The command of Herma's agent for editors on a data directory with this name, which has to exist.
    pub(super) fn editor_command(&self, data: &str) -> io::Result<Command> {
        Child::editor(&self.upstream_url(), &self.directory(data))
    }

    /// The path of a data directory with this name.
    pub(super) fn directory(&self, data: &str) -> PathBuf {
        self.data.path().join(data)
    }

    /// The size of Herma's database in a data directory with this name, in bytes, including the write-ahead log.
    pub(super) fn database_bytes(&self, data: &str) -> io::Result<u64> {
        database_bytes(&self.directory(data))
    }

    /// How many messages Herma's database has, in a data directory with this name.
    pub(super) fn messages(&self, data: &str) -> io::Result<i64> {
        let database = rusqlite::Connection::open(self.directory(data).join("herma.db"));
        let count =
            database.and_then(|database| database.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)));
        count.map_err(io::Error::other)
    }

    pub(super) fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The process of a server.
    pub(super) fn child<'a>(&'a self, server: &'a Server) -> &'a Child {
        server.child.as_ref().unwrap_or(&self.upstream)
    }

    pub(super) fn address(&self, server: &Server) -> SocketAddr {
        self.child(server).address()
    }

    pub(super) fn cpu(&self, server: &Server) -> io::Result<CpuTimes> {
        self.child(server).cpu()
    }
}

/// The size of Herma's database in a data directory, in bytes, including the write-ahead log.
pub(super) fn database_bytes(data: &Path) -> io::Result<u64> {
    let database = rusqlite::Connection::open(data.join("herma.db"));
    let bytes = database.and_then(|database| {
        let size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
        database.query_row(size, [], |row| row.get::<_, i64>(0))
    });
    bytes.map(i64::unsigned_abs).map_err(io::Error::other)
}

impl Server {
    /// A Herma process that was started separately.
    pub(super) fn herma(child: Child) -> Self {
        Self { target: Target::Herma, child: Some(child) }
    }

    pub(super) fn target(&self) -> Target {
        self.target
    }
}

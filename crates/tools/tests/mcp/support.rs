//! What the tests share.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use herma_testkit::McpServer;
use herma_tools::{Audience, CallEnd, ServerSettings, Status, Tool, Toolbox, Transport};

pub(crate) const ANYBODY: Audience<'static> = Audience { tenant: "default", session_key: None };

/// The settings of a server over stdio.
pub(crate) fn stdio(label: &str, server: &McpServer) -> ServerSettings {
    with_env(label, server, &[])
}

/// The settings of a server over stdio with variables of its own.
pub(crate) fn with_env(label: &str, server: &McpServer, env: &[(&str, &str)]) -> ServerSettings {
    let env = env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    ServerSettings::new(label, Transport::Command { command: server.command(), args: server.args(), env })
}

/// The settings of a server over HTTP.
pub(crate) fn http(label: &str, server: &McpServer, headers: &[(&str, &str)]) -> ServerSettings {
    let headers = headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    ServerSettings::new(label, Transport::Http { url: server.url(), headers })
}

/// A toolbox whose only server is ready.
pub(crate) async fn ready(settings: ServerSettings) -> Arc<Toolbox> {
    let toolbox = Toolbox::new(vec![settings]);
    let status = settled(&toolbox).await;
    assert_eq!(status, Status::Ready);
    toolbox
}

/// Starts all servers and waits for them longer than a turn would. Gives the status of the first one.
pub(crate) async fn settled(toolbox: &Toolbox) -> Status {
    loop {
        let rows = toolbox.rows(ANYBODY, true).await;
        if rows.iter().all(|row| row.status != Status::Starting) {
            return rows[0].status.clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Why the only server cannot be started.
pub(crate) async fn failure(toolbox: &Toolbox) -> String {
    match settled(toolbox).await {
        Status::Failed(why) => why,
        other => panic!("{other:?}"),
    }
}

/// An offered tool by the server's name for it.
pub(crate) async fn tool(toolbox: &Toolbox, name: &str) -> Arc<Tool> {
    let offered = toolbox.offered(ANYBODY).await;
    let found = offered.iter().find(|tool| &*tool.tool == name).cloned();
    found.unwrap_or_else(|| panic!("{name} was to be offered, there is {offered:?}"))
}

/// Calls a tool by the server's name for it.
pub(crate) async fn call(toolbox: &Toolbox, name: &str, arguments: &str) -> CallEnd {
    toolbox.call(&*tool(toolbox, name).await, arguments).await
}

pub(crate) fn result(text: &str) -> CallEnd {
    CallEnd::Result { text: text.to_owned(), is_error: false }
}

pub(crate) fn names(tools: &[Arc<Tool>]) -> Vec<&str> {
    tools.iter().map(|tool| &*tool.name).collect()
}

/// Whether a process runs; one that nobody has asked for its status yet does not.
pub(crate) fn is_running(pid: u32) -> bool {
    let status = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().expect("ps");
    let status = String::from_utf8_lossy(&status.stdout).trim().to_owned();
    !status.is_empty() && !status.starts_with('Z')
}

/// Waits for something that another process does.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

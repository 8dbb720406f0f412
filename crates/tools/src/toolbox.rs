//! All servers of a configuration together.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use herma_model::TraceContext;
use serde_json::{Map, Value};

use crate::audience::Audience;
use crate::names;
use crate::server::{Phase, Server};
use crate::settings::{Approval, ServerSettings};
use crate::tool::{CallEnd, Status, Tool, ToolRow};

/// The MCP servers of a configuration. Dropping it ends them, [`Toolbox::close`] waits for that.
pub struct Toolbox {
    servers: Vec<Arc<Server>>,
}

impl Toolbox {
    /// Takes the servers' settings and starts nothing. Of two servers with one label the first is taken.
    pub fn new(servers: Vec<ServerSettings>) -> Arc<Self> {
        let labels: Vec<&str> = servers.iter().map(|server| server.label.as_str()).collect();
        let hashed: BTreeSet<String> = names::hashed_labels(&labels).into_iter().map(str::to_owned).collect();
        let mut seen = BTreeSet::new();
        let servers = servers.into_iter().filter(|server| seen.insert(server.label.clone()));
        let servers = servers.map(|settings| {
            let label_is_hashed = hashed.contains(&settings.label);
            Server::new(settings, label_is_hashed)
        });
        Arc::new(Self { servers: servers.collect() })
    }

    /// The same, for servers beside others. A server whose label is taken gets a label with a number, and no tool gets
    /// a name that a tool of a server with a taken label can have.
    pub fn beside(mut servers: Vec<ServerSettings>, taken: &[&str]) -> Arc<Self> {
        let mut labels: Vec<String> = taken.iter().map(|&label| label.to_owned()).collect();
        for server in &mut servers {
            let numbered = (2_u32..).map(|number| format!("{}_{number}", server.label));
            let free = std::iter::once(server.label.clone()).chain(numbered).find(|label| !labels.contains(label));
            server.label = free.unwrap_or_default();
            labels.push(server.label.clone());
        }
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let hashed = names::hashed_labels(&labels);
        let is_hashed = |label: &str| hashed.contains(label) || taken.iter().any(|&other| names::begins(other, label));
        let made = servers.into_iter().map(|settings| {
            let label_is_hashed = is_hashed(&settings.label);
            Server::new(settings, label_is_hashed)
        });
        Arc::new(Self { servers: made.collect() })
    }

    /// The tools that a turn may be offered, without denied ones, in a stable order.
    ///
    /// Starts servers that this audience may use and that do not run. Waits for starting ones until 5 s after their
    /// start; later turns do not wait for the same start. Cancel-safe: a start goes on without the caller.
    pub async fn offered(&self, audience: Audience<'_>) -> Vec<Arc<Tool>> {
        self.start(audience).await;
        let tools = self.open_to(audience).flat_map(|server| match server.phase() {
            Phase::Ready(ready) => ready.tools.clone(),
            _ => Vec::new(),
        });
        tools.filter(|tool| tool.approval != Approval::Deny).collect()
    }

    /// What `GET /v1/tools` lists: a row for each tool, denied ones too, and one row for a server that shows none.
    ///
    /// With `start` it first starts and waits as [`Toolbox::offered`] does. Cancel-safe.
    pub async fn rows(&self, audience: Audience<'_>, start: bool) -> Vec<ToolRow> {
        if start {
            self.start(audience).await;
        }
        self.open_to(audience).flat_map(rows_of).collect()
    }

    /// Finds a tool, also a denied one, by its offered name.
    ///
    /// Searches servers that are ready, and those that were ready before they ended: calling starts them again.
    pub fn find(&self, audience: Audience<'_>, name: &str) -> Option<Arc<Tool>> {
        self.open_to(audience).flat_map(|server| server.known_tools()).find(|tool| &*tool.name == name)
    }

    /// Calls a tool, starting its server if necessary. Takes at most the server's timeout.
    ///
    /// Not cancel-safe: when it runs out of time or the future is dropped, the server is told to stop, and the call may
    /// have been carried out. `arguments` is the text of a JSON object; blank text stands for an empty one.
    pub async fn call(&self, tool: &Tool, arguments: &str) -> CallEnd {
        self.call_in(tool, arguments, None).await
    }

    /// The same, in a trace. The server is told of it in `_meta`, as MCP has it.
    pub async fn call_in(&self, tool: &Tool, arguments: &str, trace: Option<&TraceContext>) -> CallEnd {
        let Some(server) = self.servers.iter().find(|server| server.label == tool.server) else {
            return CallEnd::NotMade(format!("There is no MCP server `{}`.", tool.server));
        };
        match object(arguments) {
            Ok(arguments) => server.call(&tool.tool, arguments, trace).await,
            Err(reason) => CallEnd::NotMade(reason),
        }
    }

    /// Ends all servers for good and waits until their processes are gone. Cancel-safe: it can be called again.
    pub async fn close(&self) {
        self.stop();
        join_all(self.servers.iter().map(|server| server.stopped())).await;
    }

    /// Begins to start the servers that this audience may use and that do not run. Returns at once. Has to be called
    /// inside a Tokio runtime.
    pub fn begin(&self, audience: Audience<'_>) {
        for server in self.open_to(audience) {
            server.ensure_started();
        }
    }

    async fn start(&self, audience: Audience<'_>) {
        self.begin(audience);
        join_all(self.open_to(audience).map(|server| server.settled())).await;
    }

    fn open_to(&self, audience: Audience<'_>) -> impl Iterator<Item = &Arc<Server>> {
        self.servers.iter().filter(move |server| audience.may_use(&server.settings))
    }

    fn stop(&self) {
        for server in &self.servers {
            server.stop();
        }
    }
}

impl Drop for Toolbox {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.servers.iter().map(|server| &server.settings)).finish()
    }
}

fn rows_of(server: &Arc<Server>) -> Vec<ToolRow> {
    let row = |tool, status| ToolRow { server: server.label.clone(), tool, status };
    match server.phase() {
        Phase::Ready(ready) if !ready.tools.is_empty() => {
            ready.tools.iter().map(|tool| row(Some(tool.clone()), Status::Ready)).collect()
        }
        Phase::Ready(_) => vec![row(None, Status::Ready)],
        Phase::Starting { .. } => vec![row(None, Status::Starting)],
        Phase::Failed { reason, .. } => vec![row(None, Status::Failed(reason.to_string()))],
        Phase::Idle | Phase::Closed => vec![row(None, Status::Idle)],
    }
}

fn object(arguments: &str) -> Result<Map<String, Value>, String> {
    if arguments.trim().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("The arguments are not a JSON object.".to_owned()),
        Err(error) => Err(format!("The arguments are not JSON: {error}.")),
    }
}

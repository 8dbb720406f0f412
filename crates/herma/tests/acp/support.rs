//! An editor for tests. Every line of stdout has to be a message of the protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use herma_testkit::{McpServer, ScriptedUpstream};
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

/// A running agent and its editor.
pub(crate) struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// While it is locked, the editor reads nothing.
    pub(crate) reading: Arc<Mutex<()>>,
    next_id: i64,
    pub(crate) data: Arc<TempDir>,
    settings: Vec<(String, String)>,
    /// What the editor says of itself.
    pub(crate) capabilities: Value,
}

impl Agent {
    /// An agent on a new store.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::spawn(Arc::new(TempDir::new().unwrap()), settings)
    }

    /// The same, after `initialize`. The editor shows compactions.
    pub(crate) fn ready(settings: &[(&str, &str)]) -> Self {
        let mut agent = Self::start(settings);
        agent.initialize();
        agent
    }

    /// Another agent on the same store, after `initialize`.
    pub(crate) fn another(&self) -> Self {
        let mut agent = Self::spawn(Arc::clone(&self.data), self.settings.clone());
        agent.capabilities = self.capabilities.clone();
        agent.initialize();
        agent
    }

    /// An agent whose model is scripted, with this configuration, after `initialize`.
    pub(crate) fn scripted(upstream: &ScriptedUpstream, config: &str) -> Self {
        Self::able(upstream, config, json!({ "session": { "compaction": {} } }))
    }

    /// The same, in an editor with files and a terminal.
    pub(crate) fn in_project(upstream: &ScriptedUpstream, config: &str) -> Self {
        let files = json!({ "readTextFile": true, "writeTextFile": true });
        Self::able(upstream, config, json!({ "session": { "compaction": {} }, "fs": files, "terminal": true }))
    }

    fn able(upstream: &ScriptedUpstream, config: &str, capabilities: Value) -> Self {
        let data = Arc::new(TempDir::new().unwrap());
        std::fs::write(data.path().join("herma.toml"), config).unwrap();
        let settings = [("HERMA_UPSTREAM", upstream.base_url()), ("HERMA_MODEL", "scripted".to_owned())];
        let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let mut agent = Self::spawn(data, settings);
        agent.capabilities = capabilities;
        agent.initialize();
        agent
    }

    fn spawn(data: Arc<TempDir>, settings: Vec<(String, String)>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herma"));
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMA_")) {
            command.env_remove(name);
        }
        command.arg("acp").arg("--data").arg(data.path()).envs(settings.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (send, messages) = channel();
        let reading = Arc::new(Mutex::new(()));
        let reads = Arc::clone(&reading);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                drop(reads.lock());
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("on stdout: {line}"));
                assert_eq!(message["jsonrpc"], "2.0", "{line}");
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let capabilities = json!({ "session": { "compaction": {} } });
        Self { child, stdin, messages, reading, next_id: 0, data, settings, capabilities }
    }

    fn initialize(&mut self) {
        let capabilities = self.capabilities.clone();
        let answer = self.call("initialize", json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
        assert_eq!(answer["protocolVersion"], 1, "{answer}");
    }

    /// The directory of the sessions.
    pub(crate) fn cwd(&self) -> &str {
        self.data.path().to_str().unwrap()
    }

    pub(crate) fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request and does not wait.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.next_id += 1;
        let id = self.next_id;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    /// The next message.
    pub(crate) fn next(&self) -> Value {
        self.messages.recv_timeout(PATIENCE).unwrap()
    }

    /// The messages before the answer to a request, and the answer.
    pub(crate) fn until(&self, id: i64) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return (before, message);
            }
            before.push(message);
        }
    }

    /// The messages before the next request or notification of this method, and that.
    pub(crate) fn until_asked(&self, method: &str) -> (Vec<Value>, Value) {
        let mut before = Vec::new();
        loop {
            let message = self.next();
            if message["method"] == method {
                return (before, message);
            }
            before.push(message);
        }
    }

    /// Answers a request of the agent.
    pub(crate) fn reply(&mut self, request: &Value, result: Value) {
        self.write(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string());
    }

    /// Refuses a request of the agent.
    pub(crate) fn refuse(&mut self, request: &Value, message: &str) {
        let error = json!({ "code": -32603, "message": message });
        self.write(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }).to_string());
    }

    /// Sets the mode of a session.
    pub(crate) fn set_mode(&mut self, session: &str, mode: &str) {
        self.call("session/set_mode", json!({ "sessionId": session, "modeId": mode }));
    }

    /// The request to load or resume a session.
    pub(crate) fn take_up(&mut self, method: &str, session: &str) -> i64 {
        let cwd = self.cwd().to_owned();
        self.ask(method, json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] }))
    }

    /// Sends a request and waits for its answer. Updates before it are dropped.
    pub(crate) fn answer(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.until(id).1
    }

    /// The result of a request.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// A new session.
    pub(crate) fn new_session(&mut self) -> String {
        let cwd = self.cwd().to_owned();
        let made = self.call("session/new", json!({ "cwd": cwd, "mcpServers": [] }));
        assert_eq!(self.next()["params"]["update"]["sessionUpdate"], "available_commands_update");
        made["sessionId"].as_str().unwrap().to_owned()
    }

    /// The updates of a prompt and its answer.
    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> (Vec<Value>, Value) {
        let id = self.ask_prompt(session, text);
        let (before, answer) = self.until(id);
        (updates_of(&before), answer)
    }

    pub(crate) fn ask_prompt(&mut self, session: &str, text: &str) -> i64 {
        self.ask("session/prompt", json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] }))
    }

    /// Ends the input, and waits for the end of the process.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.stdin = None;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the agent did not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The updates among messages.
pub(crate) fn updates_of(messages: &[Value]) -> Vec<Value> {
    let updates = messages.iter().filter(|message| message["method"] == "session/update");
    updates.map(|message| message["params"]["update"].clone()).collect()
}

/// The text of the chunks of one kind.
pub(crate) fn text_of(updates: &[Value], kind: &str) -> String {
    let chunks = updates.iter().filter(|update| update["sessionUpdate"] == kind);
    chunks.filter_map(|update| update["content"]["text"].as_str()).collect()
}

/// The output of a command on the same store.
pub(crate) fn herma(data: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_herma"));
    let mut child = command.args(arguments).arg("--data").arg(data).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

/// A configuration with the tools of a server, under the label `files`.
pub(crate) fn files(server: &McpServer) -> String {
    let args = serde_json::to_string(&server.args()).unwrap();
    format!("[tools.mcp.files]\ncommand = \"{}\"\nargs = {args}\n", server.command())
}

/// The ids and statuses of all tool calls among updates, in order. A new call without a status is pending.
pub(crate) fn statuses(updates: &[Value]) -> Vec<(String, String)> {
    let status = |update: &Value| match update["status"].as_str() {
        None if update["sessionUpdate"] == "tool_call" => Some("pending".to_owned()),
        status => status.map(str::to_owned),
    };
    let calls = updates.iter().filter_map(|update| Some((update["toolCallId"].as_str()?.to_owned(), status(update)?)));
    calls.collect()
}

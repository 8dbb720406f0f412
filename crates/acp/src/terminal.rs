//! A command in the editor's terminal, as a tool. The terminal is released in the end, however the call ends.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use herma_tools::CallEnd;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::editor_tools::{EditorTools, arguments, joined, refused};
use crate::questions::NoAnswer;
use crate::schema::{
    CreateTerminalRequest, CreateTerminalResponse, EnvVariable, KillTerminalRequest, ReleaseTerminalRequest, Terminal,
    TerminalExitStatus, TerminalId, TerminalOutputRequest, TerminalOutputResponse, ToolCallContent,
    WaitForTerminalExitRequest, WaitForTerminalExitResponse, method,
};

pub(crate) const DESCRIPTION: &str = "Runs a command in a terminal of the user's editor, and waits until it ends. \
                                      Returns what it printed, and its exit code.";

/// How long a command may run if the call does not say it, and at most.
const DEFAULT_SECONDS: u64 = 120;
const MOST_SECONDS: u64 = 3600;
/// How long the editor may take for anything but waiting.
const EDITOR_LIMIT: Duration = Duration::from_secs(30);
/// Most bytes of output that the editor keeps.
const MOST_OUTPUT: u64 = 1024 * 1024;

pub(crate) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": { "type": "string", "description": "A program. Without `args`, a whole command line." },
            "args": { "type": "array", "items": { "type": "string" } },
            "cwd": { "type": "string", "description": "The directory. The project's directory if absent." },
            "env": { "type": "object", "additionalProperties": { "type": "string" } },
            "timeout_seconds": { "type": "integer", "minimum": 1, "maximum": MOST_SECONDS },
        },
        "required": ["command"],
    })
}

#[derive(Deserialize)]
struct Run {
    command: String,
    args: Option<Vec<String>>,
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    timeout_seconds: Option<u64>,
}

impl Run {
    /// The program and its arguments. A command line is for the shell.
    fn words(&self) -> (String, Vec<String>) {
        match &self.args {
            Some(args) => (self.command.clone(), args.clone()),
            None if cfg!(windows) => ("cmd".to_owned(), vec!["/C".to_owned(), self.command.clone()]),
            None => ("sh".to_owned(), vec!["-c".to_owned(), self.command.clone()]),
        }
    }
}

/// A terminal of the editor. Dropping it releases it, which also ends its command.
struct OpenTerminal<'a> {
    tools: &'a EditorTools,
    id: TerminalId,
    is_released: bool,
}

impl EditorTools {
    /// Runs a command to its end.
    pub(crate) async fn run(&self, call: &str, json: &str) -> CallEnd {
        let run: Run = match arguments(json) {
            Ok(run) => run,
            Err(end) => return end,
        };
        let terminal = match self.create(&run).await {
            Ok(terminal) => terminal,
            Err(end) => return end,
        };
        self.show(call, ToolCallContent::Terminal(Terminal::new(terminal.id.clone()))).await;
        let limit = Duration::from_secs(run.timeout_seconds.unwrap_or(DEFAULT_SECONDS).clamp(1, MOST_SECONDS));
        let end = match timeout(limit, terminal.exit()).await {
            Ok(Ok(status)) => match terminal.output().await {
                Some(output) => ended(&output, &status),
                None => CallEnd::Uncertain("The editor did not tell what the command printed.".to_owned()),
            },
            Ok(Err(end)) => end,
            Err(_) => {
                terminal.kill().await;
                let printed = terminal.output().await.map(|output| output.output).unwrap_or_default();
                let seconds = limit.as_secs();
                let text = format!("{printed}\n[The command did not end within {seconds} s and was killed.]");
                CallEnd::Result { text, is_error: true }
            }
        };
        terminal.release().await;
        end
    }

    async fn create(&self, run: &Run) -> Result<OpenTerminal<'_>, CallEnd> {
        let (command, args) = run.words();
        let cwd: PathBuf = run.cwd.as_deref().map_or_else(|| self.cwd.clone(), |cwd| joined(&self.cwd, cwd));
        let env = run.env.iter().map(|(name, value)| EnvVariable::new(name.clone(), value.clone())).collect();
        let request = CreateTerminalRequest::new(self.session.clone(), command)
            .args(args)
            .env(env)
            .cwd(cwd)
            .output_byte_limit(MOST_OUTPUT);
        let asked = self.editor.ask::<CreateTerminalResponse>(method::CREATE_TERMINAL, &request);
        match timeout(EDITOR_LIMIT, asked).await {
            Ok(Ok(made)) => Ok(OpenTerminal { tools: self, id: made.terminal_id, is_released: false }),
            Ok(Err(NoAnswer::Refused(error))) => Err(refused(&error)),
            Ok(Err(NoAnswer::Gone)) => Err(CallEnd::Uncertain("The editor went away.".to_owned())),
            Err(_) => Err(CallEnd::Uncertain("The editor did not answer in time.".to_owned())),
        }
    }
}

impl OpenTerminal<'_> {
    async fn exit(&self) -> Result<TerminalExitStatus, CallEnd> {
        let request = WaitForTerminalExitRequest::new(self.tools.session.clone(), self.id.clone());
        let answer = self.tools.editor.ask::<WaitForTerminalExitResponse>(method::WAIT_FOR_TERMINAL_EXIT, &request);
        match answer.await {
            Ok(response) => Ok(response.exit_status),
            Err(NoAnswer::Refused(error)) => Err(CallEnd::Uncertain(format!("The editor failed: {}", error.message))),
            Err(NoAnswer::Gone) => Err(CallEnd::Uncertain("The editor went away.".to_owned())),
        }
    }

    async fn output(&self) -> Option<TerminalOutputResponse> {
        let request = TerminalOutputRequest::new(self.tools.session.clone(), self.id.clone());
        let asked = self.tools.editor.ask(method::TERMINAL_OUTPUT, &request);
        timeout(EDITOR_LIMIT, asked).await.ok()?.ok()
    }

    async fn kill(&self) {
        let request = KillTerminalRequest::new(self.tools.session.clone(), self.id.clone());
        let asked = self.tools.editor.ask::<IgnoredAny>(method::KILL_TERMINAL, &request);
        let _ = timeout(EDITOR_LIMIT, asked).await;
    }

    async fn release(mut self) {
        self.is_released = true;
        let request = ReleaseTerminalRequest::new(self.tools.session.clone(), self.id.clone());
        let asked = self.tools.editor.ask::<IgnoredAny>(method::RELEASE_TERMINAL, &request);
        let _ = timeout(EDITOR_LIMIT, asked).await;
    }
}

impl Drop for OpenTerminal<'_> {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        let (editor, session, id) = (self.tools.editor.clone(), self.tools.session.clone(), self.id.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let request = ReleaseTerminalRequest::new(session, id);
                let asked = editor.ask::<IgnoredAny>(method::RELEASE_TERMINAL, &request);
                let _ = timeout(EDITOR_LIMIT, asked).await;
            });
        }
    }
}

/// The result of a command that has ended.
fn ended(output: &TerminalOutputResponse, status: &TerminalExitStatus) -> CallEnd {
    let cut = if output.truncated { "[The beginning of the output was cut.]\n" } else { "" };
    let how = match (status.exit_code, &status.signal) {
        (Some(code), _) => format!("[Exit code {code}]"),
        (None, Some(signal)) => format!("[Ended by signal {signal}]"),
        (None, None) => "[The exit code is not known.]".to_owned(),
    };
    let printed = output.output.trim_end();
    let lines = if printed.is_empty() { how } else { format!("{cut}{printed}\n{how}") };
    CallEnd::Result { text: lines, is_error: status.exit_code.is_none_or(|code| code != 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_for_the_shell_and_words_are_not() {
        let run = |json: &str| serde_json::from_str::<Run>(json).unwrap().words();
        let shell = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
        assert_eq!(run(r#"{"command":"a | b"}"#), (shell.0.to_owned(), vec![shell.1.to_owned(), "a | b".to_owned()]));
        assert_eq!(run(r#"{"command":"a","args":["|"]}"#), ("a".to_owned(), vec!["|".to_owned()]));
    }

    #[test]
    fn the_result_has_the_output_and_how_the_command_ended() {
        let result = |output: &str, truncated, status: TerminalExitStatus| match ended(
            &TerminalOutputResponse::new(output, truncated),
            &status,
        ) {
            CallEnd::Result { text, is_error } => (text, is_error),
            end => (format!("{end:?}"), true),
        };
        let status = TerminalExitStatus::new;
        assert_eq!(result("a\n", false, status().exit_code(0)), ("a\n[Exit code 0]".to_owned(), false));
        let killed = ("[The beginning of the output was cut.]\na\n[Ended by signal SIGKILL]".to_owned(), true);
        assert_eq!(result("a", true, status().signal("SIGKILL".to_owned())), killed);
        assert_eq!(result("", false, status().exit_code(2)), ("[Exit code 2]".to_owned(), true));
    }
}

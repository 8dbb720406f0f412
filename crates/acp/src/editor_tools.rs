//! The editor's own files and terminal as tools. Which of them there are, the editor says in `initialize`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use herma_gateway::{CallRef, FrontDoorTools, SessionCallEnd};
use herma_tools::{Approval, CallEnd, Tool};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::call_board::CallBoard;
use crate::editor::Editor;
use crate::questions::NoAnswer;
use crate::schema::{
    Diff, ReadTextFileRequest, ReadTextFileResponse, SessionId, SessionUpdate, ToolCallContent, ToolCallUpdate,
    ToolCallUpdateFields, WriteTextFileRequest, method,
};
use crate::tool_calls::tool_call_id;

/// The label of the editor's tools.
pub(crate) const LABEL: &str = "editor";
/// The tools.
pub(crate) const READ: &str = "read_text_file";
pub(crate) const WRITE: &str = "write_text_file";
pub(crate) const TERMINAL: &str = "terminal";

/// How long the editor may take to read or write a file.
const FILE_LIMIT: Duration = Duration::from_secs(60);
/// How long it may take to read the text that a write replaces, which is only shown.
const OLD_TEXT_LIMIT: Duration = Duration::from_secs(5);

/// The longest text that is stored because a write replaced it, in bytes. Without it, a replay shows no change.
const MOST_OLD_TEXT: usize = 256 * 1024;

/// The editor's tools for one session.
pub(crate) struct EditorTools {
    pub(crate) editor: Editor,
    pub(crate) session: SessionId,
    /// The directory of the session.
    pub(crate) cwd: PathBuf,
    pub(crate) board: Arc<CallBoard>,
}

impl fmt::Debug for EditorTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EditorTools").field("session", &self.session).finish_non_exhaustive()
    }
}

impl FrontDoorTools for EditorTools {
    fn tools(&self) -> Vec<Arc<Tool>> {
        let can = self.editor.can();
        let offered = [
            (can.reads, READ, READ_DESCRIPTION, read_schema(), true),
            (can.writes, WRITE, WRITE_DESCRIPTION, write_schema(), false),
            (can.runs, TERMINAL, crate::terminal::DESCRIPTION, crate::terminal::schema(), false),
        ];
        let offered = offered.into_iter().filter(|(is_offered, ..)| *is_offered);
        offered.map(|(_, name, description, schema, read_only)| tool(name, description, &schema, read_only)).collect()
    }

    fn call<'a>(&'a self, call: CallRef, tool: &'a Tool, arguments: &'a str) -> BoxFuture<'a, SessionCallEnd> {
        Box::pin(async move {
            let id = tool_call_id(call.message, &call.call);
            match &*tool.tool {
                READ => self.read(arguments).await.into(),
                WRITE => self.write(&id, arguments).await,
                TERMINAL => self.run(&id, arguments).await.into(),
                name => CallEnd::NotMade(format!("the editor has no tool '{name}'")).into(),
            }
        })
    }
}

fn tool(name: &str, description: &str, schema: &Value, read_only: bool) -> Arc<Tool> {
    Arc::new(Tool {
        name: Arc::from(format!("{LABEL}__{name}")),
        server: Arc::from(LABEL),
        tool: Arc::from(name),
        description: Arc::from(description),
        input_schema: Arc::from(schema.to_string()),
        read_only,
        approval: if read_only { Approval::Auto } else { Approval::Ask },
    })
}

const READ_DESCRIPTION: &str = "Reads a text file of the user's project in the editor, with changes that are not saved \
                                yet. `line` and `limit` select a part of it.";
const WRITE_DESCRIPTION: &str = "Writes a text file of the user's project in the editor. The content replaces the \
                                 whole file. A file that does not exist is made.";

fn read_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "An absolute path, or one in the project's directory." },
            "line": { "type": "integer", "minimum": 1, "description": "The first line, counted from 1." },
            "limit": { "type": "integer", "minimum": 1, "description": "The number of lines." },
        },
        "required": ["path"],
    })
}

fn write_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "An absolute path, or one in the project's directory." },
            "content": { "type": "string", "description": "The whole new content." },
        },
        "required": ["path", "content"],
    })
}

#[derive(Deserialize)]
struct Read {
    path: String,
    line: Option<u32>,
    limit: Option<u32>,
}

#[derive(Deserialize)]
struct Write {
    path: String,
    content: String,
}

/// Reads the arguments of a call, as the model wrote them.
pub(crate) fn arguments<T: DeserializeOwned>(json: &str) -> Result<T, CallEnd> {
    serde_json::from_str(json).map_err(|error| CallEnd::NotMade(format!("the arguments cannot be read: {error}")))
}

/// A path of the model. A relative one is in the session's directory.
pub(crate) fn joined(cwd: &Path, path: &str) -> PathBuf {
    cwd.join(path)
}

/// A stored write as the change that it made. `old` is the text that it replaced, empty if the file was new.
pub(crate) fn stored_change(cwd: &Path, json: &str, old: &str) -> Option<ToolCallContent> {
    let Write { path, content } = arguments(json).ok()?;
    let old = (!old.is_empty()).then(|| old.to_owned());
    Some(ToolCallContent::Diff(Diff::new(joined(cwd, &path), content).old_text(old)))
}

/// The end of a call that the editor refused.
pub(crate) fn refused(error: &crate::schema::Error) -> CallEnd {
    CallEnd::Result { text: format!("The editor refused: {}", error.message), is_error: true }
}

impl EditorTools {
    async fn read(&self, json: &str) -> CallEnd {
        let Read { path, line, limit } = match arguments(json) {
            Ok(read) => read,
            Err(end) => return end,
        };
        let request = ReadTextFileRequest::new(self.session.clone(), joined(&self.cwd, &path)).line(line).limit(limit);
        let answer = timeout(FILE_LIMIT, self.editor.ask::<ReadTextFileResponse>(method::READ_TEXT_FILE, &request));
        match answer.await {
            Ok(Ok(file)) => CallEnd::Result { text: file.content, is_error: false },
            Ok(Err(NoAnswer::Refused(error))) => refused(&error),
            Ok(Err(NoAnswer::Gone)) | Err(_) => CallEnd::NotMade("the editor did not answer".to_owned()),
        }
    }

    async fn write(&self, id: &str, json: &str) -> SessionCallEnd {
        let Write { path, content } = match arguments(json) {
            Ok(write) => write,
            Err(end) => return end.into(),
        };
        if self.board.content(id).is_none() {
            let diff = self.diff(&path, &content).await;
            self.show(id, diff).await;
        }
        let end = self.write_file(&path, content).await;
        let old_text = match self.board.content(id) {
            Some(ToolCallContent::Diff(diff)) => Some(diff.old_text.unwrap_or_default()),
            _ => None,
        };
        let old_text = old_text.filter(|old| old.len() <= MOST_OLD_TEXT);
        SessionCallEnd { end, old_text: old_text.map(Arc::from) }
    }

    async fn write_file(&self, path: &str, content: String) -> CallEnd {
        let request = WriteTextFileRequest::new(self.session.clone(), joined(&self.cwd, path), content);
        let answer = timeout(FILE_LIMIT, self.editor.ask::<IgnoredAny>(method::WRITE_TEXT_FILE, &request));
        match answer.await {
            Ok(Ok(_)) => CallEnd::Result { text: format!("{path} was written."), is_error: false },
            Ok(Err(NoAnswer::Refused(error))) => refused(&error),
            Ok(Err(NoAnswer::Gone)) => CallEnd::Uncertain("The editor went away.".to_owned()),
            Err(_) => CallEnd::Uncertain("The editor did not answer in time.".to_owned()),
        }
    }

    /// The change that a write makes, as the editor shows it. A file that cannot be read counts as new.
    async fn diff(&self, path: &str, content: &str) -> ToolCallContent {
        let path = joined(&self.cwd, path);
        let mut old = None;
        if self.editor.can().reads {
            let request = ReadTextFileRequest::new(self.session.clone(), path.clone());
            let asked = self.editor.ask::<ReadTextFileResponse>(method::READ_TEXT_FILE, &request);
            let answer = timeout(OLD_TEXT_LIMIT, asked).await;
            old = answer.ok().and_then(Result::ok).map(|file| file.content);
        }
        ToolCallContent::Diff(Diff::new(path, content).old_text(old))
    }

    /// Puts what a call would change on the board, so that the person sees it beside the question.
    pub(crate) async fn prepare(&self, id: &str, tool: &str, json: &str) {
        if let (WRITE, Ok(Write { path, content })) = (tool, arguments::<Write>(json)) {
            let diff = self.diff(&path, &content).await;
            self.board.put(id, diff);
        }
    }

    /// Shows the content of a call, now or as soon as the editor knows the call.
    pub(crate) async fn show(&self, id: &str, content: ToolCallContent) {
        if self.board.put(id, content.clone()) {
            let fields = ToolCallUpdateFields::new().content(vec![content]);
            let update = SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.to_owned(), fields));
            self.editor.update(&self.session, update).await;
        }
    }
}

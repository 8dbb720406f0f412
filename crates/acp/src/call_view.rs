//! What the editor shows of a tool call before it has a result: a title, a kind and the places that it is about.

use std::path::{Path, PathBuf};

use herma_model::tool::BUILT_IN;
use herma_wire::own_tools::MadeCall;
use serde_json::Value;

use crate::editor_tools::{self, LABEL, joined};
use crate::schema::{ToolCallLocation, ToolKind};

/// Most characters of a title.
const LONGEST_TITLE: usize = 120;

/// What the editor shows of a call.
pub(crate) struct CallView {
    pub(crate) title: String,
    pub(crate) kind: ToolKind,
    pub(crate) locations: Vec<ToolCallLocation>,
    pub(crate) arguments: Value,
}

impl CallView {
    /// The view of a call. Relative paths are in `cwd`.
    pub(crate) fn of(call: &MadeCall, cwd: &Path) -> Self {
        let arguments: Value =
            serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::from(call.arguments.clone()));
        let text = |name: &str| arguments[name].as_str().unwrap_or_default();
        let path = || joined(cwd, text("path"));
        let (title, kind, locations) = match (&*call.own.server, &*call.own.tool) {
            (LABEL, editor_tools::READ) => (format!("Read {}", text("path")), ToolKind::Read, vec![path()]),
            (LABEL, editor_tools::WRITE) => (format!("Write {}", text("path")), ToolKind::Edit, vec![path()]),
            (LABEL, editor_tools::TERMINAL) => {
                let words = arguments["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let line: Vec<&str> = std::iter::once(text("command")).chain(words).collect();
                (line.join(" "), ToolKind::Execute, Vec::new())
            }
            (BUILT_IN, "delegate_task") => (delegated(&arguments), ToolKind::Other, Vec::new()),
            (BUILT_IN, "session_search") => {
                (format!("Search earlier sessions: {}", text("query")), ToolKind::Search, Vec::new())
            }
            (BUILT_IN, "session_read") => {
                (format!("Read an earlier session: {}", text("id")), ToolKind::Read, Vec::new())
            }
            (server, tool) => (format!("{server}.{tool}"), ToolKind::Other, Vec::new()),
        };
        let line = arguments["line"].as_u64().and_then(|line| u32::try_from(line).ok());
        let location = |path: PathBuf| ToolCallLocation::new(path).line(line);
        Self { title: short(&title), kind, locations: locations.into_iter().map(location).collect(), arguments }
    }
}

/// The goals of delegated work.
fn delegated(arguments: &Value) -> String {
    let tasks = arguments["tasks"].as_array().into_iter().flatten();
    let goals: Vec<&str> = tasks.filter_map(|task| task["goal"].as_str()).collect();
    format!("Delegate: {}", goals.join("; "))
}

/// One line that is not too long.
fn short(title: &str) -> String {
    let line = title.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_TITLE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use herma_model::OwnCall;

    use super::*;

    fn view(server: &str, tool: &str, arguments: &str) -> CallView {
        let own = OwnCall {
            id: "c".into(),
            server: server.into(),
            tool: tool.into(),
            asks: false,
            waits: false,
            max_output: None,
        };
        CallView::of(&MadeCall { own, arguments: arguments.to_owned() }, Path::new("/work"))
    }

    #[test]
    fn each_kind_of_tool_has_its_view() {
        for (server, tool, arguments, title, kind) in [
            ("editor", "read_text_file", r#"{"path":"a.rs"}"#, "Read a.rs", ToolKind::Read),
            ("editor", "write_text_file", r#"{"path":"/b/c.rs"}"#, "Write /b/c.rs", ToolKind::Edit),
            ("editor", "terminal", r#"{"command":"ls","args":["-l","a"]}"#, "ls -l a", ToolKind::Execute),
            ("herma", "delegate_task", r#"{"tasks":[{"goal":"a"},{"goal":"b"}]}"#, "Delegate: a; b", ToolKind::Other),
            ("herma", "session_search", r#"{"query":"oslo"}"#, "Search earlier sessions: oslo", ToolKind::Search),
            ("files", "write", "no JSON", "files.write", ToolKind::Other),
        ] {
            let view = view(server, tool, arguments);
            assert_eq!((view.title.as_str(), view.kind), (title, kind), "{server}.{tool}");
        }
        let read = view("editor", "read_text_file", r#"{"path":"a.rs","line":7}"#);
        assert_eq!(read.locations, [ToolCallLocation::new("/work/a.rs").line(7)]);
        assert_eq!(view("x", "y", "no JSON").arguments, Value::from("no JSON"));
    }

    #[test]
    fn a_long_title_is_cut_and_has_one_line() {
        let view = view("editor", "terminal", &format!(r#"{{"command":"a\nb {}"}}"#, "c".repeat(200)));
        assert!(view.title.starts_with("a b ccc") && view.title.ends_with('…'), "{}", view.title);
        assert_eq!(view.title.chars().count(), LONGEST_TITLE + 1);
    }
}

//! Calls of Herma's own tools and their results as lines for people.

use herma_model::tool::DELEGATE_TASK;
use herma_model::{CallEnd, CallStatus, OwnCall, Utterance};
use herma_wire::chat::shown_text;
use serde_json::Value;

use crate::{excerpt, output};

/// The most characters of arguments.
const ARGUMENTS: usize = 120;
/// The most characters of a result that is shown because the call failed.
const REASON: usize = 200;

/// The calls of Herma's own tools that a message makes, each with its arguments, JSON text as the model wrote it.
pub(crate) fn calls(said: &Utterance) -> Vec<(OwnCall, String)> {
    let own = said.own_calls();
    if own.is_empty() {
        return Vec::new();
    }
    let written = written_calls(said);
    let arguments = |own: &OwnCall| {
        let call = written.iter().find(|call| call["id"].as_str() == Some(&own.id))?;
        call["function"]["arguments"].as_str().map(str::to_owned)
    };
    own.into_iter().map(|own| (own.clone(), arguments(&own).unwrap_or_default())).collect()
}

/// All calls that a message makes, each in one line: those of Herma's own tools and those of the client's.
pub(crate) fn all_calls(said: &Utterance) -> Vec<String> {
    if said.calls.is_empty() {
        return Vec::new();
    }
    let own = said.own_calls();
    let line = |written: &Value| {
        let arguments = written["function"]["arguments"].as_str().unwrap_or_default();
        match own.iter().find(|own| written["id"].as_str() == Some(&own.id)) {
            Some(own) => call(own, arguments),
            None => {
                let tool = written["function"]["name"].as_str().or(written["custom"]["name"].as_str());
                format!("{} {}", name("", tool.unwrap_or("a tool")), excerpt::line(arguments, ARGUMENTS))
            }
        }
    };
    written_calls(said).iter().map(line).collect()
}

fn written_calls(said: &Utterance) -> Vec<Value> {
    let payload: Value = serde_json::from_str(said.payload.as_json()).unwrap_or_default();
    payload["tool_calls"].as_array().cloned().unwrap_or_default()
}

/// A call in one line, such as `files.read_file {"path":"x"}`.
pub(crate) fn call(own: &OwnCall, arguments: &str) -> String {
    if is_delegation(own)
        && let Some(goals) = goals(arguments)
    {
        let tasks = if goals.len() == 1 { "task".to_owned() } else { format!("{} tasks", goals.len()) };
        return format!("delegate {tasks}: {}", excerpt::line(&goals.join("; "), ARGUMENTS));
    }
    format!("{} {}", name(&own.server, &own.tool), excerpt::line(arguments, ARGUMENTS))
}

/// A tool as people see it: its server's label, a dot, and its name there.
pub(crate) fn name(server: &str, tool: &str) -> String {
    let name = if server.is_empty() { tool.to_owned() } else { format!("{server}.{tool}") };
    output::printable(&name)
}

/// How a call ended, in one line such as `120 characters, 0.3 s` or `failed: no such file`.
pub(crate) fn result(said: &Utterance, end: &CallEnd) -> String {
    let text = shown_text(said).unwrap_or_default();
    let ended = match end.status {
        CallStatus::Done => {
            let told = helpers(&text).unwrap_or_else(|| match text.chars().count() {
                1 => "1 character".to_owned(),
                many => format!("{many} characters"),
            });
            return format!("{told}, {}", seconds(end.duration_ms));
        }
        CallStatus::Failed => "failed",
        CallStatus::Denied => "denied",
        CallStatus::NotMade => "not made",
        CallStatus::Uncertain => "uncertain",
    };
    format!("{ended}: {}", excerpt::line(plain(&text), REASON))
}

fn is_delegation(own: &OwnCall) -> bool {
    *own.server == *herma_model::tool::BUILT_IN && *own.tool == *DELEGATE_TASK
}

fn goals(arguments: &str) -> Option<Vec<String>> {
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let tasks = arguments["tasks"].as_array().filter(|tasks| !tasks.is_empty())?;
    tasks.iter().map(|task| task["goal"].as_str().map(str::to_owned)).collect()
}

/// How helpers ended, if the text is a result of delegated work: how many, and how many of them without an answer.
fn helpers(text: &str) -> Option<String> {
    let Ok(Value::Array(helpers)) = serde_json::from_str(text) else { return None };
    let is_helper = |helper: &Value| helper["conversation_id"].is_string() && helper["status"].is_string();
    if helpers.is_empty() || !helpers.iter().all(is_helper) {
        return None;
    }
    let done = helpers.iter().filter(|helper| helper["status"] == "completed").count();
    Some(match (done, helpers.len()) {
        (1, 1) => "the helper answered".to_owned(),
        (done, all) if done == all => format!("{all} helpers answered"),
        (done, all) => format!("{done} of {all} helpers answered"),
    })
}

/// The sentence of a result in Herma's own words, without its brackets and without what the word before it says.
fn plain(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else { return text };
    ["This call was denied: ", "This call was not made: "]
        .iter()
        .find_map(|start| inner.strip_prefix(start))
        .unwrap_or(inner)
}

fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(server: &str, tool: &str) -> OwnCall {
        OwnCall {
            id: "c".into(),
            server: server.into(),
            tool: tool.into(),
            asks: false,
            waits: false,
            max_output: None,
        }
    }

    fn ended(status: CallStatus, text: &str) -> String {
        let end = CallEnd { duration_ms: 1_250, ..CallEnd::at_once(status) };
        result(&Utterance::tool_result("c", text, &end), &end)
    }

    #[test]
    fn a_call_is_its_tool_and_its_arguments() {
        assert_eq!(call(&own("files", "read"), "{\"path\":\n\"x\"}"), "files.read {\"path\": \"x\"}");
        assert_eq!(call(&own("", "gone"), "{}"), "gone {}");
        let tasks = r#"{"tasks":[{"goal":"write a poem"},{"goal":"count"}]}"#;
        assert_eq!(call(&own("herma", "delegate_task"), tasks), "delegate 2 tasks: write a poem; count");
        assert_eq!(call(&own("herma", "delegate_task"), "{"), "herma.delegate_task {");
    }

    #[test]
    fn a_result_says_how_long_it_is_or_why_there_is_none() {
        assert_eq!(ended(CallStatus::Done, "größe"), "5 characters, 1.2 s");
        assert_eq!(ended(CallStatus::Failed, "no such\nfile"), "failed: no such file");
        assert_eq!(
            ended(CallStatus::Denied, "[This call was denied: the user did not allow it.]"),
            "denied: the user did not allow it."
        );
        assert_eq!(ended(CallStatus::NotMade, "[This call was not made: it is down.]"), "not made: it is down.");
    }

    #[test]
    fn a_result_of_delegated_work_counts_the_helpers() {
        let helper = |status: &str| format!(r#"{{"conversation_id":"conv_1","status":"{status}","answer":"x"}}"#);
        let list =
            |all: &[&str]| format!("[{}]", all.iter().map(|status| helper(status)).collect::<Vec<_>>().join(","));
        assert_eq!(ended(CallStatus::Done, &list(&["completed"])), "the helper answered, 1.2 s");
        assert_eq!(ended(CallStatus::Done, &list(&["completed", "completed"])), "2 helpers answered, 1.2 s");
        assert_eq!(ended(CallStatus::Done, &list(&["completed", "failed"])), "1 of 2 helpers answered, 1.2 s");
        assert_eq!(ended(CallStatus::Done, "[]"), "2 characters, 1.2 s");
    }
}

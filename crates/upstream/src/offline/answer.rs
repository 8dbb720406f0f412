//! What the offline model says.

use herma_model::generation::ToolCall;
use serde_json::{Value, json};

use super::prompt::{Form, Prompt};
use super::{schema, summary, title, tools};
use crate::redact::shorten;

/// Longest repetition of what was said, in characters.
const MAX_ECHO: usize = 600;

/// An answer before it is counted and cut.
#[derive(Debug)]
pub(super) enum Reply {
    /// Words.
    Text(String),
    /// Calls of tools.
    Calls(Vec<ToolCall>),
}

/// Decides what to answer: the result of a tool if one was just given, else a call that is asked for, else words.
pub(super) fn reply_to(prompt: &Prompt) -> Reply {
    if let Some(results) = tool_results(prompt) {
        return Reply::Text(in_form(prompt, results));
    }
    let calls = tools::wanted_calls(prompt);
    if !calls.is_empty() {
        return Reply::Calls(calls);
    }
    let text = title::title_of(prompt).or_else(|| summary::summary_of(prompt)).unwrap_or_else(|| echo(prompt));
    Reply::Text(in_form(prompt, text))
}

fn in_form(prompt: &Prompt, text: String) -> String {
    match &prompt.form {
        Form::Text => text,
        Form::Json => json!({ "answer": text }).to_string(),
        Form::Schema(schema) => match schema::example(schema, "answer") {
            Value::Object(object) => Value::Object(object).to_string(),
            other => json!({ "answer": other }).to_string(),
        },
    }
}

fn tool_results(prompt: &Prompt) -> Option<String> {
    let results = prompt.messages.iter().rev().take_while(|said| said.role == "tool");
    let mut texts: Vec<&str> = results.map(|said| said.text.trim()).collect();
    texts.reverse();
    match *texts.as_slice() {
        [] => None,
        [""] => Some("The tool answered nothing.".to_owned()),
        [text] => Some(format!("The tool answered: {}", shorten(text, MAX_ECHO))),
        _ => Some(format!("The tools answered: {}", shorten(&texts.join("; "), MAX_ECHO))),
    }
}

fn echo(prompt: &Prompt) -> String {
    let said = prompt.last_user_text().trim();
    let count = prompt.messages.iter().filter(|said| said.role == "user").count();
    match (count, said) {
        (0, _) => "Nothing was said to me yet. (I am Herma's offline model.)".to_owned(),
        (_, "") => format!("You said nothing. (message {count} of this conversation; I am Herma's offline model.)"),
        _ => format!(
            "You said: {} (message {count} of this conversation; I am Herma's offline model.)",
            shorten(said, MAX_ECHO)
        ),
    }
}

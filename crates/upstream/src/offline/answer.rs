//! Decides what the offline model answers.

use herma_model::generation::ToolCall;
use serde_json::{Value, json};

use super::prompt::{AnswerFormat, Prompt};
use super::{recall, schema, summary, title, tools};
use crate::redact::shorten;

/// The longest text that an answer repeats, in characters.
const MAX_ECHO: usize = 600;

/// An answer before its tokens are counted and limited.
#[derive(Debug)]
pub(super) enum Reply {
    /// Text.
    Text(String),
    /// Tool calls.
    Calls(Vec<ToolCall>),
}

/// The answer: the newest tool results if there are any, else the tool calls that are asked for, else text.
pub(super) fn reply_to(prompt: &Prompt) -> Reply {
    if let Some(results) = tool_results(prompt) {
        return Reply::Text(in_format(prompt, results));
    }
    let calls = tools::requested_calls(prompt);
    if !calls.is_empty() {
        return Reply::Calls(calls);
    }
    let text = title::title_of(prompt)
        .or_else(|| summary::summary_of(prompt))
        .or_else(|| recall::what_was_said(prompt))
        .unwrap_or_else(|| echo(prompt));
    Reply::Text(in_format(prompt, text))
}

fn in_format(prompt: &Prompt, text: String) -> String {
    match &prompt.form {
        AnswerFormat::Text => text,
        AnswerFormat::Json => json!({ "answer": text }).to_string(),
        AnswerFormat::Schema(schema) => match schema::example(schema, "answer") {
            Value::Object(object) => Value::Object(object).to_string(),
            other => json!({ "answer": other }).to_string(),
        },
    }
}

/// A sentence that quotes the newest tool results. After results the model always answers, so it never loops.
fn tool_results(prompt: &Prompt) -> Option<String> {
    let results = prompt.messages.iter().rev().take_while(|message| message.role == "tool");
    let mut texts: Vec<&str> = results.map(|message| message.text.trim()).collect();
    texts.reverse();
    if let [text] = texts.as_slice()
        && let Some(answers) = helpers_answers(text)
    {
        let who = if answers.len() == 1 { "The helper" } else { "The helpers" };
        return Some(format!("{who} answered: {}", shorten(&answers.join("; "), MAX_ECHO)));
    }
    match *texts.as_slice() {
        [] => None,
        [""] => Some("The tool answered nothing.".to_owned()),
        [text] => Some(format!("The tool answered: {}", shorten(text, MAX_ECHO))),
        _ => Some(format!("The tools answered: {}", shorten(&texts.join("; "), MAX_ECHO))),
    }
}

/// What helpers answered, or how each without an answer ended, if a result is one of delegated work.
fn helpers_answers(result: &str) -> Option<Vec<String>> {
    let Ok(Value::Array(helpers)) = serde_json::from_str(result) else { return None };
    let answer = |helper: &Value| {
        let status = helper["conversation_id"].as_str().and(helper["status"].as_str())?;
        let answer = helper["answer"].as_str().filter(|_| status == "completed");
        Some(answer.map_or_else(|| format!("[{status}]"), str::to_owned))
    };
    let answers: Option<Vec<String>> = helpers.iter().map(answer).collect();
    answers.filter(|answers| !answers.is_empty())
}

fn echo(prompt: &Prompt) -> String {
    let said = prompt.last_user_text().trim();
    let count = prompt.messages.iter().filter(|message| message.role == "user").count();
    match (count, said) {
        (0, _) => "Nothing was said to me yet. (I am Herma's offline model.)".to_owned(),
        (_, "") => format!("You said nothing. (message {count} of this conversation; I am Herma's offline model.)"),
        _ => format!(
            "You said: {} (message {count} of this conversation; I am Herma's offline model.)",
            shorten(said, MAX_ECHO)
        ),
    }
}

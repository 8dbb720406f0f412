//! Tool calls of the offline model. The last user message or `tool_choice` asks for them.
//!
//! - `use files__read_file {"path":"x"}` calls a function; so do `call` and `run`, and a name with arguments alone.
//!   A message can ask for several. `files.read_file` is the same name.
//! - `delegate: write a poem; count to three` hands each task to a helper, if `delegate_task` may be called.

use herma_model::generation::ToolCall;
use herma_model::message::Digest;
use herma_model::tool::DELEGATE_TASK;
use serde_json::{Map, Value, json};

use super::prompt::{Function, Prompt, ToolChoice};
use super::scan::{Token, outside_objects, tokens};
use super::schema;

/// These words ask for a call if a function's name follows.
const ASKING: &[&str] = &["call", "use", "run"];
/// Words that may stand between them and a name.
const BETWEEN: &[&str] =
    &["the", "a", "my", "your", "tool", "tools", "function", "functions", "both", "with", "and", "then"];
/// How a line begins that hands work to helpers.
const DELEGATE: &str = "delegate:";

/// A function to call, with its arguments if the message has them.
type Requested<'a> = (&'a Function, Option<Value>);

/// The calls to make, in the order of the message. The arguments are the JSON object that follows the name in the
/// message, or else an example that matches the function's schema.
pub(super) fn requested_calls(prompt: &Prompt) -> Vec<ToolCall> {
    let message = prompt.last_user_text();
    let functions = &prompt.functions;
    let asked = || delegated(message, functions).map_or_else(|| named(message, functions), |one| vec![one]);
    let first_object = || {
        tokens(message).into_iter().find_map(|token| match token {
            Token::Object(object) => Some(object),
            Token::Word(_) => None,
        })
    };
    let requested: Vec<Requested<'_>> = match &prompt.choice {
        ToolChoice::Never => Vec::new(),
        ToolChoice::Auto => asked(),
        ToolChoice::Named(name) => {
            let function = functions.iter().find(|function| &function.name == name);
            let asked = asked().into_iter().find(|(function, _)| &function.name == name);
            asked.or_else(|| Some((function?, first_object()))).into_iter().collect()
        }
        ToolChoice::Required => {
            let asked = asked();
            if asked.is_empty() { functions.iter().take(1).map(|one| (one, first_object())).collect() } else { asked }
        }
    };
    let calls = requested.into_iter().enumerate();
    calls.map(|(index, (function, arguments))| call(prompt.digest, index, function, arguments)).collect()
}

fn call(digest: Digest, index: usize, function: &Function, arguments: Option<Value>) -> ToolCall {
    let arguments = arguments.unwrap_or_else(|| match schema::example(&function.parameters, "text") {
        object @ Value::Object(_) => object,
        _ => Value::Object(Map::new()),
    });
    let id = Digest::of_fields([digest.0.as_slice(), &index.to_le_bytes()]);
    ToolCall {
        id: format!("call_{id:?}"),
        name: function.name.clone(),
        arguments: arguments.to_string(),
        ..ToolCall::default()
    }
}

/// The functions that a message asks for.
fn named<'a>(message: &str, functions: &'a [Function]) -> Vec<Requested<'a>> {
    let tokens = tokens(message);
    let mut found: Vec<Requested<'a>> = Vec::new();
    let mut is_asking = false;
    for (at, token) in tokens.iter().enumerate() {
        let word = match token {
            Token::Object(object) => {
                if let Some((_, arguments @ None)) = found.last_mut() {
                    *arguments = Some(object.clone());
                }
                continue;
            }
            Token::Word(word) => *word,
        };
        let is = |list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(word));
        let has_arguments = matches!(tokens.get(at + 1), Some(Token::Object(_)));
        match functions.iter().find(|function| is_name_of(word, function)) {
            Some(function) if is_asking || has_arguments => {
                found.push((function, None));
                is_asking = true;
            }
            _ if is(ASKING) => is_asking = true,
            _ => is_asking = is_asking && is(BETWEEN),
        }
    }
    found
}

/// Whether a word is a function's name, or the name of its server, a dot, and its own name.
fn is_name_of(word: &str, function: &Function) -> bool {
    function.name.eq_ignore_ascii_case(word) || function.name.eq_ignore_ascii_case(&word.replacen('.', "__", 1))
}

/// A call that hands each task after `delegate:` to a helper. Semicolons and line breaks separate tasks.
fn delegated<'a>(message: &str, functions: &'a [Function]) -> Option<Requested<'a>> {
    let function = functions.iter().find(|function| function.name == DELEGATE_TASK)?;
    let begins = |line: &str| line.get(..DELEGATE.len()).is_some_and(|start| start.eq_ignore_ascii_case(DELEGATE));
    let mut lines = message.split_inclusive('\n').scan(0, |next, line| {
        let start = *next + (line.len() - line.trim_start().len());
        *next += line.len();
        Some((start, line.trim_start()))
    });
    let (start, _) = lines.find(|(_, line)| begins(line))?;
    let tasks = outside_objects(&message[start + DELEGATE.len()..], [';', '\n']);
    let tasks = tasks.into_iter().map(|task| task.trim().trim_start_matches("- ").trim_end_matches('.'));
    let tasks: Vec<Value> = tasks.filter(|task| !task.is_empty()).map(|task| json!({ "goal": task })).collect();
    (!tasks.is_empty()).then(|| (function, Some(json!({ "tasks": tasks }))))
}

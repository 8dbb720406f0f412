//! Tool calls of the offline model. The last user message or `tool_choice` asks for them.

use herma_model::generation::ToolCall;
use herma_model::message::Digest;
use serde_json::{Map, Value};

use super::prompt::{Function, Prompt, ToolChoice};
use super::schema;

/// These words ask for a call if a function's name follows.
const ASKING: &[&str] = &["call", "use"];
/// Words that may stand between them and the name.
const BETWEEN: &[&str] = &["the", "a", "my", "your", "tool", "function", "and"];

/// The calls to make, in the order of the message. The arguments are the JSON object that follows the name in the
/// message, or else an example that matches the function's schema.
pub(super) fn requested_calls(prompt: &Prompt) -> Vec<ToolCall> {
    let message = prompt.last_user_text();
    let named = || named_functions(message, &prompt.functions);
    let requested: Vec<(&Function, &str)> = match &prompt.choice {
        ToolChoice::Never => Vec::new(),
        ToolChoice::Auto => named(),
        ToolChoice::Named(name) => {
            prompt.functions.iter().filter(|function| &function.name == name).map(|one| (one, message)).collect()
        }
        ToolChoice::Required => {
            let named = named();
            if named.is_empty() { prompt.functions.iter().take(1).map(|one| (one, message)).collect() } else { named }
        }
    };
    let calls = requested.into_iter().enumerate();
    calls.map(|(index, (function, rest))| call(prompt.digest, index, function, rest)).collect()
}

fn call(digest: Digest, index: usize, function: &Function, rest: &str) -> ToolCall {
    let arguments = json_object_in(rest).unwrap_or_else(|| match schema::example(&function.parameters, "text") {
        object @ Value::Object(_) => object,
        _ => Value::Object(Map::new()),
    });
    let id = Digest::of_fields([digest.0.as_slice(), &index.to_le_bytes()]);
    ToolCall {
        id: format!("call_{id:?}"),
        name: function.name.clone(),
        arguments: arguments.to_string(),
        extra: Map::new(),
    }
}

/// The functions that a message asks for, each with the text up to the next one.
fn named_functions<'a>(message: &'a str, functions: &'a [Function]) -> Vec<(&'a Function, &'a str)> {
    let mut found: Vec<(&Function, usize, usize)> = Vec::new();
    let mut is_asking = false;
    for (start, word) in words(message) {
        let is = |list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(word));
        let function = functions.iter().find(|function| function.name.eq_ignore_ascii_case(word));
        match function.filter(|_| is_asking) {
            Some(function) => found.push((function, start, start + word.len())),
            None if is(ASKING) => is_asking = true,
            None => is_asking = is_asking && is(BETWEEN),
        }
    }
    let next_starts = found.iter().skip(1).map(|(_, start, _)| *start).chain([message.len()]);
    let next_starts: Vec<usize> = next_starts.collect();
    found.into_iter().zip(next_starts).map(|((function, _, end), next)| (function, &message[end..next])).collect()
}

/// The words of a text, each with its position. A word has only characters that function names may have.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_border = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let mut next = 0;
    text.split_inclusive(is_border).filter_map(move |part| {
        let start = next;
        next += part.len();
        let word = part.trim_end_matches(is_border).trim_end_matches(['.', '-']);
        (!word.is_empty()).then_some((start, word))
    })
}

/// The first JSON object in a text.
fn json_object_in(text: &str) -> Option<Value> {
    text.match_indices('{').find_map(|(at, _)| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        values.next()?.ok().filter(Value::is_object)
    })
}

//! The fields of a request that go to the model server as they are.
//!
//! Common fields are checked first, so that a mistake is answered at once and names its field. Ranges differ between
//! model servers, so they are not checked here.

use std::sync::Arc;

use herma_model::Params;
use serde_json::value::RawValue;

use crate::bad_request::Flaw;
use crate::json::{Object, compact, elements, flag, text};

/// Fields that are checked but not passed on.
const NOT_PASSED_ON: [&str; 2] = ["store", "metadata"];

/// Reads the remaining fields of a request. Returns its `user` and the fields for the model server.
pub(super) fn read(rest: &Object<'_>) -> Result<(Option<String>, Params), Flaw> {
    let mut params = Params::default();
    let mut user = None;
    for (name, raw) in rest.rest() {
        check(name, raw).map_err(|flaw| flaw.within(name))?;
        if name == "user" {
            user = text(raw).ok().map(String::from);
        }
        if !NOT_PASSED_ON.contains(&name) {
            let json = compact(raw).map_err(|flaw| flaw.within(name))?;
            params.0.push((Box::from(name), Arc::from(json)));
        }
    }
    Ok((user, params))
}

fn check(name: &str, raw: &RawValue) -> Result<(), Flaw> {
    match name {
        "temperature" | "top_p" | "presence_penalty" | "frequency_penalty" => number(raw),
        "max_tokens" | "max_completion_tokens" => positive(raw),
        "seed" => integer(raw),
        "logprobs" | "parallel_tool_calls" | "store" => flag(raw).map(drop),
        "user" => text(raw).map(drop),
        "stop" => stop(raw),
        "tools" => tools(raw),
        "tool_choice" => begins(raw, "\"{", "must be a string or an object"),
        "response_format" | "metadata" => begins(raw, "{", "must be an object"),
        "functions" | "function_call" => Err(Flaw::new("is not supported: use tools and tool_choice")),
        _ => Ok(()),
    }
}

pub(crate) fn begins(raw: &RawValue, openings: &str, otherwise: &str) -> Result<(), Flaw> {
    if raw.get().starts_with(|first| openings.contains(first)) { Ok(()) } else { Err(Flaw::new(otherwise)) }
}

pub(crate) fn number(raw: &RawValue) -> Result<(), Flaw> {
    match raw.get().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(()),
        _ => Err(Flaw::new("must be a number")),
    }
}

pub(crate) fn positive(raw: &RawValue) -> Result<(), Flaw> {
    match raw.get().parse::<u64>() {
        Ok(1..) => Ok(()),
        _ => Err(Flaw::new("must be a positive integer")),
    }
}

fn integer(raw: &RawValue) -> Result<(), Flaw> {
    raw.get().parse::<i128>().map(drop).map_err(|_| Flaw::new("must be an integer"))
}

fn stop(raw: &RawValue) -> Result<(), Flaw> {
    begins(raw, "\"[", "must be a string or an array of strings")?;
    if raw.get().starts_with('"') {
        return text(raw).map(drop);
    }
    each(raw, |stop| text(stop).map(drop))
}

fn tools(raw: &RawValue) -> Result<(), Flaw> {
    begins(raw, "[", "must be an array of tools")?;
    each(raw, |tool| begins(tool, "{", "must be an object"))
}

fn each(raw: &RawValue, check: impl Fn(&RawValue) -> Result<(), Flaw>) -> Result<(), Flaw> {
    elements(raw)?
        .into_iter()
        .enumerate()
        .try_for_each(|(index, element)| check(element).map_err(|flaw| flaw.element(index)))
}

//! Reads a streamed answer frame by frame.
//!
//! The end is reported once, at `[DONE]` or the end of the body. The finish reason is not the end, because a chunk
//! with the usage may follow it.

use std::borrow::Cow;

use herma_model::generation::Finish;
use herma_model::{Delta, FinishReason, Usage};
use serde_json::{Map, Value};

use super::chunk::{Choice, Chunk};
use super::error::{DecodeError, ReportedError};
use super::repeated::RepeatedChunk;
use super::sse::Frame;
use super::tool_calls::Calls;
use super::usage::read_usage;

const DONE: &[u8] = b"[DONE]";

/// What a frame contained.
#[derive(Debug)]
pub(crate) enum Progress<'a> {
    /// Nothing that is shown to a client.
    Nothing,
    /// A piece of the answer that has text and nothing else.
    Text(Cow<'a, str>),
    /// Any other piece of the answer.
    Piece(Delta),
    /// The end of the answer. Nothing may follow.
    Done(Finish),
}

/// The state of a streamed answer so far.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    reason: Option<FinishReason>,
    usage: Option<Usage>,
    model: Option<String>,
    /// Unknown fields of the answer object, as JSON text. Most chunks repeat them, so they are compared before they
    /// are copied.
    extra: Vec<(String, Box<str>)>,
    calls: Calls,
    repeated: RepeatedChunk,
    has_content: bool,
    frames: u64,
}

impl Assembler {
    /// Takes the next frame.
    pub(crate) fn take<'a>(&mut self, frame: Frame<'a>) -> Result<Progress<'a>, DecodeError> {
        let data = frame.data.trim_ascii();
        if data.is_empty() {
            return Ok(Progress::Nothing);
        }
        self.frames += 1;
        if data == DONE {
            return self.end_of_answer().map(Progress::Done);
        }
        if frame.name == b"error" {
            return Err(DecodeError::Reported(error_event(data)));
        }
        if let Some(text) = self.repeated.text(data) {
            return Ok(self.take_text(text));
        }
        match serde_json::from_slice(data) {
            Ok(chunk) => {
                let progress = self.take_chunk(chunk)?;
                match &progress {
                    Progress::Text(Cow::Borrowed(text)) => self.repeated.note(data, text),
                    _ => self.repeated.forget(),
                }
                Ok(progress)
            }
            // A named event need not be a chunk.
            Err(_) if !frame.name.is_empty() && frame.name != b"message" => Ok(Progress::Nothing),
            Err(error) => Err(DecodeError::not_json(data, &error)),
        }
    }

    /// How the answer ended if the body ended without `[DONE]`.
    pub(crate) fn end_of_body(&mut self) -> Result<Finish, DecodeError> {
        if self.reason.is_none() { Err(DecodeError::CutOff) } else { self.end_of_answer() }
    }

    /// Whether no frame with data has arrived.
    pub(crate) fn saw_no_frame(&self) -> bool {
        self.frames == 0
    }

    fn take_chunk<'a>(&mut self, chunk: Chunk<'a>) -> Result<Progress<'a>, DecodeError> {
        if let Some(error) = ReportedError::from_member(&chunk.error) {
            return Err(DecodeError::Reported(error));
        }
        self.usage = read_usage(&chunk.usage).or(self.usage);
        let Some(choices) = chunk.choices else { return Ok(Progress::Nothing) };
        if self.model.is_none() {
            self.model = chunk.model.filter(|model| !model.is_empty()).map(Into::into);
        }
        for (name, value) in chunk.extra {
            self.keep_extra(&name, value.get());
        }
        let first = choices.into_iter().find(|choice| choice.index == 0);
        first.map_or(Ok(Progress::Nothing), |choice| self.take_choice(choice))
    }

    fn take_text<'a>(&mut self, text: Cow<'a, str>) -> Progress<'a> {
        if text.is_empty() {
            return Progress::Nothing;
        }
        self.has_content = true;
        Progress::Text(text)
    }

    fn take_choice<'a>(&mut self, choice: Choice<'a>) -> Result<Progress<'a>, DecodeError> {
        if let Some(error) = choice.extra.get("error").and_then(ReportedError::from_member) {
            return Err(DecodeError::Reported(error));
        }
        match choice.finish_reason.as_deref() {
            Some("error") => return Err(DecodeError::CutOff),
            Some(reason) if !reason.is_empty() => self.reason = Some(FinishReason::from_wire(reason)),
            _ => {}
        }
        let wire = choice.delta;
        let refusal = wire.refusal.filter(|text| !text.is_empty());
        if refusal.is_none() && wire.calls.is_empty() && wire.extra.is_empty() && choice.extra.is_empty() {
            return Ok(wire.content.map_or(Progress::Nothing, |text| self.take_text(text)));
        }
        let delta = Delta {
            content: wire.content.filter(|text| !text.is_empty()).map(Cow::into_owned),
            refusal: refusal.map(Cow::into_owned),
            tool_calls: wire.calls.into_iter().filter_map(|call| self.calls.piece(call)).collect(),
            extra: wire.extra,
            choice_extra: choice.extra,
        };
        if delta.is_empty() {
            return Ok(Progress::Nothing);
        }
        self.has_content |= delta.content.is_some() || delta.refusal.is_some() || !delta.extra.is_empty();
        Ok(Progress::Piece(delta))
    }

    fn keep_extra(&mut self, name: &str, json: &str) {
        match self.extra.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) if **known == *json || json == "null" => {}
            Some((_, known)) => *known = json.into(),
            None if json == "null" => {}
            None => self.extra.push((name.to_owned(), json.into())),
        }
    }

    fn end_of_answer(&mut self) -> Result<Finish, DecodeError> {
        let implied = if self.calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        let reason = self.reason.unwrap_or(implied);
        if !self.has_content && self.calls.is_empty() && !may_be_empty(reason) {
            return Err(DecodeError::EmptyAnswer);
        }
        let mut extra = Map::new();
        for (name, json) in std::mem::take(&mut self.extra) {
            extra.insert(name, serde_json::from_str(&json).unwrap_or(Value::Null));
        }
        Ok(Finish { reason, usage: self.usage, model: self.model.take(), extra })
    }
}

/// Whether an answer with this finish reason may be empty.
pub(super) fn may_be_empty(reason: FinishReason) -> bool {
    matches!(reason, FinishReason::Length | FinishReason::ContentFilter)
}

fn error_event(data: &[u8]) -> ReportedError {
    let text = || Value::String(String::from_utf8_lossy(data).into_owned());
    let body = serde_json::from_slice(data).unwrap_or_else(|_| text());
    ReportedError::from_body(&body).or_else(|| ReportedError::from_member(&body)).unwrap_or_default()
}

#[cfg(test)]
#[path = "assembler_tests.rs"]
mod tests;

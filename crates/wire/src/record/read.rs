//! Reads a record back into pieces.

use std::borrow::Cow;

use herma_model::generation::ToolCallDelta;
use herma_model::{Answer, Delta, TextRun};
use serde_json::{Map, Value};

use super::Piece;
use super::line::{Probabilities, RecordLine, TextPiece};
use crate::chat::logprobs;

/// The texts that are stored beside a record. Each field has the rest that was not read yet.
#[derive(Default)]
pub(super) struct StoredTexts<'a> {
    text: &'a str,
    refusal: &'a str,
    reasoning_content: &'a str,
    reasoning: &'a str,
    arguments: Vec<&'a str>,
    probabilities: &'a [Value],
    /// Stands for a call that the answer does not have. Always empty.
    missing_call: &'a str,
}

impl<'a> StoredTexts<'a> {
    pub(super) fn of_answer(answer: &'a Answer) -> Self {
        let extra = |name| answer.extra.get(name).and_then(Value::as_str).unwrap_or_default();
        Self {
            text: answer.content.as_deref().unwrap_or_default(),
            refusal: answer.refusal.as_deref().unwrap_or_default(),
            reasoning_content: extra("reasoning_content"),
            reasoning: extra("reasoning"),
            arguments: answer.tool_calls.iter().map(|call| call.arguments.as_str()).collect(),
            probabilities: logprobs(&answer.choice_extra),
            missing_call: "",
        }
    }

    pub(super) fn of_text(text: &'a str) -> Self {
        Self { text, ..Self::default() }
    }

    fn arguments(&mut self, index: u32) -> &mut &'a str {
        self.arguments.get_mut(index as usize).unwrap_or(&mut self.missing_call)
    }

    /// Whether every text was read to its end.
    pub(super) fn are_used_up(&self) -> bool {
        let texts = [self.text, self.refusal, self.reasoning_content, self.reasoning];
        texts.iter().chain(&self.arguments).all(|text| text.is_empty())
    }
}

/// Reads every piece. `None` if one of them does not match what is stored.
pub(super) fn steps(record: &str, texts: &mut StoredTexts<'_>) -> Option<Vec<Piece<'static>>> {
    let mut steps = Vec::new();
    for line in record.lines() {
        match serde_json::from_str(line).ok()? {
            RecordLine::Text(pieces) => {
                let mut run = TextRun::default();
                for piece in pieces {
                    match piece {
                        TextPiece::Stored(length) => run.push(cut(&mut texts.text, length)?),
                        TextPiece::Text(text) => run.push(&text),
                    }
                }
                steps.push(Piece::Text(Cow::Owned(run)));
            }
            RecordLine::Refusal(pieces) => {
                push_texts(pieces, &mut texts.refusal, &mut steps, |text| Delta {
                    refusal: Some(text),
                    ..Delta::default()
                })?;
            }
            RecordLine::ReasoningContent(pieces) => {
                push_texts(pieces, &mut texts.reasoning_content, &mut steps, |text| {
                    reasoning("reasoning_content", text)
                })?;
            }
            RecordLine::Reasoning(pieces) => {
                push_texts(pieces, &mut texts.reasoning, &mut steps, |text| reasoning("reasoning", text))?;
            }
            RecordLine::Hidden(length) => {
                cut(&mut texts.reasoning, length)?;
            }
            RecordLine::Call(index, id, name, arguments) => {
                let arguments = match arguments {
                    Some(piece) => Some(piece.text(texts.arguments(index))?),
                    None => None,
                };
                steps.push(step(call(ToolCallDelta { index, id, name, arguments, ..ToolCallDelta::default() })));
            }
            RecordLine::Arguments(index, pieces) => push_texts(pieces, texts.arguments(index), &mut steps, |text| {
                call(ToolCallDelta { index, arguments: Some(text), ..ToolCallDelta::default() })
            })?,
            RecordLine::Probabilities(run) => steps.push(step(probabilities(run, &mut texts.probabilities)?)),
            RecordLine::Compacted(id) => steps.push(Piece::Compacted(id.parse().ok()?)),
        }
    }
    Some(steps)
}

/// Adds a step for each piece of a text.
fn push_texts(
    pieces: Vec<TextPiece>,
    stored: &mut &str,
    steps: &mut Vec<Piece<'static>>,
    delta: impl Fn(String) -> Delta,
) -> Option<()> {
    for piece in pieces {
        steps.push(step(delta(piece.text(stored)?)));
    }
    Some(())
}

impl TextPiece {
    /// The text. If it is stored elsewhere, it is cut off the front of `stored`.
    fn text(self, stored: &mut &str) -> Option<String> {
        match self {
            Self::Stored(length) => cut(stored, length).map(str::to_owned),
            Self::Text(text) => Some(text),
        }
    }
}

fn cut<'a>(stored: &mut &'a str, length: usize) -> Option<&'a str> {
    let (piece, rest) = stored.split_at_checked(length)?;
    *stored = rest;
    Some(piece)
}

fn probabilities(run: Probabilities, stored: &mut &[Value]) -> Option<Delta> {
    let values = match run {
        Probabilities::Stored(count) => {
            let (values, rest) = stored.split_at_checked(count)?;
            *stored = rest;
            values.to_vec()
        }
        Probabilities::Values(values) => values,
    };
    let content = Map::from_iter([("content".to_owned(), Value::Array(values))]);
    let choice_extra = Map::from_iter([("logprobs".to_owned(), Value::Object(content))]);
    Some(Delta { choice_extra, ..Delta::default() })
}

fn reasoning(name: &str, text: String) -> Delta {
    Delta { extra: Map::from_iter([(name.to_owned(), Value::String(text))]), ..Delta::default() }
}

fn call(piece: ToolCallDelta) -> Delta {
    Delta { tool_calls: vec![piece], ..Delta::default() }
}

fn step(delta: Delta) -> Piece<'static> {
    Piece::Delta(Cow::Owned(delta))
}

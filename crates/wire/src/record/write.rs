//! Writes pieces as a record.

use herma_model::Delta;
use herma_model::generation::ToolCallDelta;
use serde_json::{Map, Value};

use super::Piece;
use super::run::{Cut, Probabilities, Run};
use crate::chat::logprobs;
use crate::json::Writer;

/// What is stored elsewhere, so that the record needs only lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// The whole answer.
    Answer,
    /// Only the text of the answer.
    Said,
}

pub(super) fn record<'a>(steps: impl IntoIterator<Item = Piece<'a>>, kept: Kept) -> String {
    let mut recorder = Recorder { kept, runs: Vec::new(), waiting: Vec::new(), hidden: 0, calls: 0 };
    for step in steps {
        match step {
            Piece::Delta(delta) => recorder.delta(&delta),
            Piece::Compacted(id) => recorder.runs.push(Run::Compacted(id.to_string())),
        }
    }
    recorder.finish()
}

struct Recorder {
    kept: Kept,
    runs: Vec<Run>,
    /// Log probabilities whose text has not come yet.
    waiting: Vec<Value>,
    /// Bytes of `reasoning` that came beside `reasoning_content`, so that they were not streamed.
    hidden: usize,
    /// The number of calls so far.
    calls: u32,
}

impl Recorder {
    fn delta(&mut self, delta: &Delta) {
        self.waiting.extend_from_slice(logprobs(&delta.choice_extra));
        self.reasoning(&delta.extra);
        if let Some(text) = some_text(delta.content.as_deref()) {
            self.said(text);
        }
        if let Some(text) = some_text(delta.refusal.as_deref()) {
            self.add(Run::Refusal(vec![self.piece(text)]));
        }
        for piece in &delta.tool_calls {
            self.call(piece);
        }
    }

    fn reasoning(&mut self, extra: &Map<String, Value>) {
        let text = |name| some_text(extra.get(name).and_then(Value::as_str));
        let (content, other) = (text("reasoning_content"), text("reasoning"));
        if let Some(text) = content {
            self.add(Run::ReasoningContent(vec![self.piece(text)]));
            self.hidden += other.map_or(0, str::len);
        } else if let Some(text) = other {
            self.pass_hidden();
            self.add(Run::Reasoning(vec![self.piece(text)]));
        }
    }

    fn said(&mut self, text: &str) {
        let probabilities = std::mem::take(&mut self.waiting);
        let goes_on = matches!(self.runs.last(), Some(Run::Text(_)));
        self.add_probabilities(self.runs.len() - usize::from(goes_on), probabilities);
        self.add(Run::Text(vec![Cut::Stored(text.len())]));
    }

    /// Records how much of the stored reasoning was not streamed, before the next piece is cut from it.
    fn pass_hidden(&mut self) {
        let hidden = std::mem::take(&mut self.hidden);
        if hidden > 0 && self.kept == Kept::Answer {
            self.runs.push(Run::Hidden(hidden));
        }
    }

    /// Adds pieces to the last line if it is of their kind, else as a new line.
    fn add(&mut self, run: Run) {
        match (self.runs.last_mut(), run) {
            (Some(Run::Text(pieces)), Run::Text(more))
            | (Some(Run::Refusal(pieces)), Run::Refusal(more))
            | (Some(Run::ReasoningContent(pieces)), Run::ReasoningContent(more))
            | (Some(Run::Reasoning(pieces)), Run::Reasoning(more)) => pieces.extend(more),
            (Some(Run::Arguments(call, pieces)), Run::Arguments(index, more)) if *call == index => pieces.extend(more),
            (_, run) => self.runs.push(run),
        }
    }

    /// Adds log probabilities before the line that has the index `at` or will have it.
    fn add_probabilities(&mut self, at: usize, more: Vec<Value>) {
        if more.is_empty() {
            return;
        }
        let before = at.checked_sub(1).and_then(|before| self.runs.get_mut(before));
        match (before, self.kept) {
            (Some(Run::Probabilities(Probabilities::Stored(count))), _) => *count += more.len(),
            (Some(Run::Probabilities(Probabilities::Values(values))), _) => values.extend(more),
            (_, Kept::Answer) => self.runs.insert(at, Run::Probabilities(Probabilities::Stored(more.len()))),
            (_, Kept::Said) => self.runs.insert(at, Run::Probabilities(Probabilities::Values(more))),
        }
    }

    fn call(&mut self, piece: &ToolCallDelta) {
        if self.kept == Kept::Answer {
            // The index leaves a gap, so no answer has this piece. The record says only that it came.
            if piece.index > self.calls {
                self.runs.push(Run::Call(piece.index, None, None, None));
                return;
            }
            self.calls = self.calls.max(piece.index.saturating_add(1));
        }
        let arguments = some_text(piece.arguments.as_deref()).map(|text| self.piece(text));
        match arguments {
            Some(arguments) if piece.id.is_none() && piece.name.is_none() => {
                self.add(Run::Arguments(piece.index, vec![arguments]));
            }
            arguments => self.runs.push(Run::Call(piece.index, piece.id.clone(), piece.name.clone(), arguments)),
        }
    }

    /// A piece of anything but the answer's text.
    fn piece(&self, text: &str) -> Cut {
        match self.kept {
            Kept::Answer => Cut::Stored(text.len()),
            Kept::Said => Cut::Text(text.to_owned()),
        }
    }

    fn finish(mut self) -> String {
        self.pass_hidden();
        let waiting = std::mem::take(&mut self.waiting);
        self.add_probabilities(self.runs.len(), waiting);
        let mut record = String::new();
        for run in &self.runs {
            let mut writer = Writer::with_capacity(64);
            writer.value(run);
            record.push_str(&writer.into_text());
            record.push('\n');
        }
        record
    }
}

fn some_text(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

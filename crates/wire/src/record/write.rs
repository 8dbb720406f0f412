//! Writes pieces as a record.

use herma_model::Delta;
use herma_model::generation::ToolCallDelta;
use serde_json::{Map, Value};

use super::Piece;
use super::line::{Probabilities, RecordLine, TextPiece};
use crate::chat::logprobs;
use crate::json::Writer;

/// What is stored elsewhere, so that the record needs only lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredElsewhere {
    /// The whole answer.
    Answer,
    /// Only the text of the answer.
    Text,
}

pub(super) fn record<'a>(steps: impl IntoIterator<Item = Piece<'a>>, stored: StoredElsewhere) -> String {
    let mut recorder = Recorder { stored, lines: Vec::new(), waiting: Vec::new(), hidden: 0, calls: 0 };
    for step in steps {
        match step {
            Piece::Text(run) => recorder.text(run.pieces().map(str::len)),
            Piece::Delta(delta) => recorder.delta(&delta),
            Piece::Compacted(id) => recorder.lines.push(RecordLine::Compacted(id.to_string())),
        }
    }
    recorder.finish()
}

struct Recorder {
    stored: StoredElsewhere,
    lines: Vec<RecordLine>,
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
            self.text([text.len()]);
        }
        if let Some(text) = some_text(delta.refusal.as_deref()) {
            self.add(RecordLine::Refusal(vec![self.piece(text)]));
        }
        for piece in &delta.tool_calls {
            self.call(piece);
        }
    }

    fn reasoning(&mut self, extra: &Map<String, Value>) {
        let text = |name| some_text(extra.get(name).and_then(Value::as_str));
        let (content, other) = (text("reasoning_content"), text("reasoning"));
        if let Some(text) = content {
            self.add(RecordLine::ReasoningContent(vec![self.piece(text)]));
            self.hidden += other.map_or(0, str::len);
        } else if let Some(text) = other {
            self.pass_hidden();
            self.add(RecordLine::Reasoning(vec![self.piece(text)]));
        }
    }

    /// Records pieces of the text by their lengths.
    fn text(&mut self, lengths: impl IntoIterator<Item = usize>) {
        let probabilities = std::mem::take(&mut self.waiting);
        let continues = matches!(self.lines.last(), Some(RecordLine::Text(_)));
        self.add_probabilities(self.lines.len() - usize::from(continues), probabilities);
        self.add(RecordLine::Text(lengths.into_iter().map(TextPiece::Stored).collect()));
    }

    /// Records how much of the stored reasoning was not streamed, before the next piece is cut from it.
    fn pass_hidden(&mut self) {
        let hidden = std::mem::take(&mut self.hidden);
        if hidden > 0 && self.stored == StoredElsewhere::Answer {
            self.lines.push(RecordLine::Hidden(hidden));
        }
    }

    /// Adds pieces to the last line if it is of their kind, else as a new line.
    fn add(&mut self, line: RecordLine) {
        match (self.lines.last_mut(), line) {
            (Some(RecordLine::Text(pieces)), RecordLine::Text(more))
            | (Some(RecordLine::Refusal(pieces)), RecordLine::Refusal(more))
            | (Some(RecordLine::ReasoningContent(pieces)), RecordLine::ReasoningContent(more))
            | (Some(RecordLine::Reasoning(pieces)), RecordLine::Reasoning(more)) => pieces.extend(more),
            (Some(RecordLine::Arguments(call, pieces)), RecordLine::Arguments(index, more)) if *call == index => {
                pieces.extend(more);
            }
            (_, line) => self.lines.push(line),
        }
    }

    /// Adds log probabilities before the line that has the index `at` or will have it.
    fn add_probabilities(&mut self, at: usize, more: Vec<Value>) {
        if more.is_empty() {
            return;
        }
        let before = at.checked_sub(1).and_then(|before| self.lines.get_mut(before));
        match (before, self.stored) {
            (Some(RecordLine::Probabilities(Probabilities::Stored(count))), _) => *count += more.len(),
            (Some(RecordLine::Probabilities(Probabilities::Values(values))), _) => values.extend(more),
            (_, StoredElsewhere::Answer) => {
                self.lines.insert(at, RecordLine::Probabilities(Probabilities::Stored(more.len())));
            }
            (_, StoredElsewhere::Text) => self.lines.insert(at, RecordLine::Probabilities(Probabilities::Values(more))),
        }
    }

    fn call(&mut self, piece: &ToolCallDelta) {
        if self.stored == StoredElsewhere::Answer {
            // The index leaves a gap, so no answer has this piece. The record says only that it came.
            if piece.index > self.calls {
                self.lines.push(RecordLine::Call(piece.index, None, None, None));
                return;
            }
            self.calls = self.calls.max(piece.index.saturating_add(1));
        }
        let arguments = some_text(piece.arguments.as_deref()).map(|text| self.piece(text));
        match arguments {
            Some(arguments) if piece.id.is_none() && piece.name.is_none() => {
                self.add(RecordLine::Arguments(piece.index, vec![arguments]));
            }
            arguments => {
                self.lines.push(RecordLine::Call(piece.index, piece.id.clone(), piece.name.clone(), arguments));
            }
        }
    }

    /// A piece of anything but the answer's text.
    fn piece(&self, text: &str) -> TextPiece {
        match self.stored {
            StoredElsewhere::Answer => TextPiece::Stored(text.len()),
            StoredElsewhere::Text => TextPiece::Text(text.to_owned()),
        }
    }

    fn finish(mut self) -> String {
        self.pass_hidden();
        let waiting = std::mem::take(&mut self.waiting);
        self.add_probabilities(self.lines.len(), waiting);
        let mut record = String::new();
        for line in &self.lines {
            let mut writer = Writer::with_capacity(64);
            writer.value(line);
            record.push_str(&writer.into_text());
            record.push('\n');
        }
        record
    }
}

fn some_text(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

//! The pieces of a model's answer, put together.

use herma_model::generation::{Finish, ToolCall};
use herma_model::{Answer, Delta};
use serde_json::{Map, Value};

/// The pieces of an answer so far.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pub(crate) content: String,
    refusal: String,
    pub(crate) tool_calls: Vec<ToolCall>,
    extra: Map<String, Value>,
    choice_extra: Map<String, Value>,
}

impl Pieces {
    /// Whether there is nothing yet that a client could have been shown.
    pub(crate) fn are_empty(&self) -> bool {
        self.content.is_empty() && self.refusal.is_empty() && self.tool_calls.is_empty()
    }

    /// Adds a piece.
    pub(crate) fn add(&mut self, delta: &Delta) {
        self.content.push_str(delta.content.as_deref().unwrap_or(""));
        self.refusal.push_str(delta.refusal.as_deref().unwrap_or(""));
        for piece in &delta.tool_calls {
            let at = piece.index as usize;
            if at > self.tool_calls.len() {
                continue;
            }
            if at == self.tool_calls.len() {
                self.tool_calls.push(ToolCall::default());
            }
            let call = &mut self.tool_calls[at];
            if let Some(id) = &piece.id {
                call.id.clone_from(id);
            }
            call.name.push_str(piece.name.as_deref().unwrap_or(""));
            call.arguments.push_str(piece.arguments.as_deref().unwrap_or(""));
            call.custom |= piece.custom;
            merge(&mut call.extra, &piece.extra);
        }
        merge(&mut self.extra, &delta.extra);
        merge(&mut self.choice_extra, &delta.choice_extra);
    }

    /// Takes the whole answer.
    pub(crate) fn answer(&mut self, finish: Finish) -> Answer {
        Answer {
            content: Some(std::mem::take(&mut self.content)).filter(|text| !text.is_empty()),
            refusal: Some(std::mem::take(&mut self.refusal)).filter(|text| !text.is_empty()),
            tool_calls: std::mem::take(&mut self.tool_calls),
            extra: std::mem::take(&mut self.extra),
            choice_extra: std::mem::take(&mut self.choice_extra),
            finish,
        }
    }
}

/// Adds the fields of a piece to those of the whole. Texts and lists are appended, objects are merged, other values are
/// replaced.
fn merge(whole: &mut Map<String, Value>, piece: &Map<String, Value>) {
    for (name, value) in piece {
        match (whole.get_mut(name), value) {
            (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more.iter().cloned()),
            (Some(Value::Object(inner)), Value::Object(more)) => merge(inner, more),
            _ => {
                whole.insert(name.clone(), value.clone());
            }
        }
    }
}

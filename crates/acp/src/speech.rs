//! What the model says, as pieces of messages with ids.

use herma_model::generation::Finish;
use herma_model::{Delta, FinishReason, MessageId, TextRun, Utterance};
use herma_wire::chat::{answer_of, reasoning_text};
use serde_json::Map;

use crate::content::{chunk, text_block};
use crate::schema::SessionUpdate;

/// A message of the model while it streams. The ids are the same live and in a replay.
pub(crate) struct Speech {
    message: MessageId,
    /// The text that was sent.
    shown: String,
    /// The reasoning that was sent.
    thought: String,
}

impl Speech {
    /// The message with this id, of which nothing was sent yet.
    pub(crate) const fn new(message: MessageId) -> Self {
        Self { message, shown: String::new(), thought: String::new() }
    }

    /// A piece of the message.
    pub(crate) fn delta(&mut self, delta: &Delta) -> Vec<SessionUpdate> {
        let mut updates = Vec::new();
        updates.extend(reasoning_text(&delta.extra).and_then(|text| self.think(text)));
        for text in [&delta.content, &delta.refusal].into_iter().flatten() {
            updates.extend(self.say(text));
        }
        updates
    }

    /// Pieces of the text, each as an update of its own.
    pub(crate) fn text(&mut self, run: &TextRun) -> Vec<SessionUpdate> {
        run.pieces().filter_map(|piece| self.say(piece)).collect()
    }

    /// What no piece had of the whole message.
    pub(crate) fn rest(&mut self, said: &Utterance) -> Vec<SessionUpdate> {
        let finish = Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Map::new() };
        let whole = answer_of(said, finish);
        let thought = reasoning_text(&whole.extra).unwrap_or_default();
        let text = whole.content.unwrap_or_default() + whole.refusal.as_deref().unwrap_or_default();
        let thought = thought.strip_prefix(self.thought.as_str()).unwrap_or_default().to_owned();
        let text = text.strip_prefix(self.shown.as_str()).unwrap_or_default().to_owned();
        [self.think(&thought), self.say(&text)].into_iter().flatten().collect()
    }

    fn say(&mut self, text: &str) -> Option<SessionUpdate> {
        self.shown.push_str(text);
        (!text.is_empty()).then(|| SessionUpdate::AgentMessageChunk(chunk(&self.message, text_block(text))))
    }

    fn think(&mut self, text: &str) -> Option<SessionUpdate> {
        self.thought.push_str(text);
        let id = format!("{}.thought", self.message);
        (!text.is_empty()).then(|| SessionUpdate::AgentThoughtChunk(chunk(&id, text_block(text))))
    }
}

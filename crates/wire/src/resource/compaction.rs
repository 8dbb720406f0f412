//! Compactions, as `/api/sessions/{alias}/compactions` shows them: rows of the ledger, and previews.

use std::sync::Arc;

use herma_model::compaction::{CompactionOutcome, Sizes};
use herma_model::provenance::CompactionMode;
use herma_model::{Compaction, Message, Provenance, Seq, Usage, Utterance};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::usage::ResourceUsage;
use super::{MessageRow, rfc3339};
use crate::chat::shown_text;

#[derive(Serialize)]
struct SeqRange {
    first_seq: i64,
    last_seq: i64,
}

/// One row of the ledger. Every field but `session` is always present. It is null if it is unknown or does not apply.
#[derive(Debug, Clone)]
pub struct CompactionRow<'a> {
    record: &'a Compaction,
    /// The head after the compaction. Only the answer to the request that made it has this.
    session: Option<Provenance>,
}

impl CompactionRow<'_> {
    /// The same row as the answer to a request, with the head after the compaction as `session`.
    #[must_use]
    pub fn led_to(self, session: Provenance) -> Self {
        Self { session: Some(session), ..self }
    }
}

impl<'a> From<&'a Compaction> for CompactionRow<'a> {
    fn from(record: &'a Compaction) -> Self {
        Self { record, session: None }
    }
}

impl Serialize for CompactionRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = self.record;
        let summary = record.summary.as_ref();
        let changed = record.outcome != CompactionOutcome::Failed;
        let carried: Vec<i64> = record.carried.iter().map(|seq| seq.0).collect();
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("id", &record.id)?;
        row.serialize_entry("object", "compaction")?;
        row.serialize_entry("action", &record.action)?;
        row.serialize_entry("mode", &record.mode)?;
        row.serialize_entry("trigger", &record.trigger)?;
        row.serialize_entry("made_by", &record.made_by)?;
        row.serialize_entry("outcome", &record.outcome)?;
        row.serialize_entry("session_before", &record.session_before)?;
        row.serialize_entry("session_after", &record.session_after)?;
        row.serialize_entry("range", &SeqRange { first_seq: record.first.0, last_seq: record.through.0 })?;
        row.serialize_entry("carried", &carried)?;
        row.serialize_entry("summary", &summary.and_then(|summary| shown_text(&summary.said)))?;
        row.serialize_entry("summary_message_id", &summary.map(|summary| summary.id))?;
        row.serialize_entry("model", &record.model)?;
        row.serialize_entry("tokens_before", &record.sizes.before)?;
        row.serialize_entry("tokens_after", &changed.then_some(record.sizes.after))?;
        row.serialize_entry("usage", &ResourceUsage::from(record.usage))?;
        row.serialize_entry("duration_ms", &record.duration_ms)?;
        row.serialize_entry("error", &record.failure)?;
        row.serialize_entry("undoes", &record.undoes)?;
        row.serialize_entry("undone_by", &record.undone_by)?;
        row.serialize_entry("turn_id", &record.turn)?;
        row.serialize_entry("created_at", &rfc3339(record.created_at))?;
        if let Some(session) = &self.session {
            row.serialize_entry("session", session)?;
        }
        row.end()
    }
}

/// What a compaction would do.
#[derive(Debug, Clone)]
pub struct CompactionPreview<'a> {
    /// Whether the session would be split or compacted in place.
    pub mode: CompactionMode,
    /// The first message that would be summarised.
    pub first: Seq,
    /// The last message that would be summarised.
    pub through: Seq,
    /// How many messages would be summarised.
    pub summarised: usize,
    /// Messages up to `through` that would be kept word for word.
    pub carried: &'a [Arc<Message>],
    /// Messages after `through`.
    pub kept: &'a [Arc<Message>],
    /// The summary that would be stored.
    pub summary: &'a Utterance,
    /// The model that wrote the summary.
    pub model: Option<&'a str>,
    /// The size of the context before and after.
    pub sizes: Sizes,
    /// Tokens that the summary cost.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl Serialize for CompactionPreview<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kept: Vec<MessageRow<'_>> =
            self.carried.iter().chain(self.kept).map(|message| MessageRow::from(&**message)).collect();
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("object", "compaction.preview")?;
        object.serialize_entry("dry_run", &true)?;
        object.serialize_entry("mode", &self.mode)?;
        object.serialize_entry("range", &SeqRange { first_seq: self.first.0, last_seq: self.through.0 })?;
        object.serialize_entry("summarised", &self.summarised)?;
        object.serialize_entry("kept", &kept)?;
        object.serialize_entry("summary", &shown_text(self.summary))?;
        object.serialize_entry("model", &self.model)?;
        object.serialize_entry("tokens_before", &self.sizes.before)?;
        object.serialize_entry("tokens_after", &self.sizes.after)?;
        object.serialize_entry("usage", &ResourceUsage::from(self.usage))?;
        object.serialize_entry("duration_ms", &self.duration_ms)?;
        object.end()
    }
}

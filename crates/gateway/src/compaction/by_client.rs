//! Compactions that a client made itself. It sends the result in place of its history, and the ledger notes it.

use std::sync::Arc;

use herma_model::compaction::{Base, CompactionTrigger, MadeBy, Sizes};
use herma_model::provenance::CompactionMode;
use herma_model::{Message, MessageId, NewMessage, Seq, Usage, Utterance};
use herma_store::{Authority, CompactOutcome, Compacted, Lease, NewCompaction, Snapshot, StoreError};
use herma_turn::Replacement;
use herma_turn::summary::{left_out, written_by_client};

use super::Load;
use crate::gateway::Gateway;
use crate::mint;
use crate::request::TurnRequest;

/// Why the ledger has no summary of a range that a client has cut off.
const CUT_OFF: &str = "the client left these messages out of its history";

impl Gateway {
    /// Writes what a client has put in place of a part of its history. `None` if an earlier attempt has written it. Not
    /// cancel-safe: the turn has to know whether it was written.
    pub(crate) async fn note_client_compaction(
        &self,
        request: &TurnRequest,
        snapshot: &Snapshot,
        lease: Lease,
        replacement: &Replacement,
    ) -> Result<Option<(Compacted, Arc<Base>)>, StoreError> {
        let summary = summary_of(request, replacement);
        let said = summary.clone().unwrap_or_else(left_out);
        let base = snapshot.base.as_deref();
        let (through, last) = covered(base, replacement);
        let carried = replacement.carried.clone();
        let is_there = |base: &Base| base.through == through && base.summary.said.digest == said.digest;
        if base.is_some_and(is_there) {
            return Ok(None);
        }
        let new = NewCompaction {
            facts: Vec::new(),
            id: mint::compaction(),
            authority: Authority::Lease(lease),
            base: base.map(|base| base.summary.compaction),
            rewrites: snapshot.rewrites,
            mode: CompactionMode::InPlace,
            trigger: CompactionTrigger::Manual,
            made_by: MadeBy::Client,
            through,
            last,
            carried: carried.iter().map(|message| message.seq).collect(),
            trimmed: summary.is_none().then(|| CUT_OFF.to_owned()),
            session: mint::session(),
            model: None,
            sizes: sizes(request, snapshot, through, &carried, &said),
            summary: NewMessage { id: mint::summary(), said },
            usage: Usage::default(),
            duration_ms: 0,
            now: mint::now(),
        };
        let outcome = self.store.compact(new).await?;
        let CompactOutcome::Compacted(compacted) = outcome else {
            tracing::warn!(?outcome, "a compaction by the client could not be noted");
            return Ok(None);
        };
        self.compacted(&compacted);
        let made_by = MadeBy::Client;
        let base = compacted.summary().cloned().map(|summary| Arc::new(Base { through, summary, carried, made_by }));
        Ok(base.map(|base| (*compacted, base)))
    }
}

/// The last place that the compaction covers, and its message. It never covers less than the base.
fn covered(base: Option<&Base>, replacement: &Replacement) -> (Seq, MessageId) {
    let last = &replacement.last;
    (base.map_or(last.seq, |base| base.through.max(last.seq)), last.id)
}

/// The client's own words in place of what it left out.
fn summary_of(request: &TurnRequest, replacement: &Replacement) -> Option<Utterance> {
    let said: Vec<&Utterance> = replacement.summary.iter().map(|at| &request.input.messages[*at]).collect();
    match said[..] {
        [] => None,
        [one] => Some(one.clone()),
        [..] => {
            let texts: Vec<String> = said.iter().filter_map(|said| said.payload.text()).collect();
            Some(written_by_client(&texts.join("\n\n")))
        }
    }
}

/// The size of the context before and after, both estimated.
fn sizes(
    request: &TurnRequest,
    snapshot: &Snapshot,
    through: Seq,
    carried: &[Arc<Message>],
    summary: &Utterance,
) -> Sizes {
    let front = Load::of(request, Some(snapshot), &[]).front;
    let tokens = |message: &Arc<Message>| u64::from(message.said.tokens);
    let base = snapshot.base.iter().flat_map(|base| &base.carried).map(tokens);
    let replaced = snapshot.base.as_ref().map_or(0, |base| u64::from(base.summary.said.tokens));
    let before = snapshot.messages.iter().map(tokens).chain(base).sum::<u64>() + replaced + front;
    let later = snapshot.messages.iter().filter(|message| message.seq > through).map(tokens);
    let after = later.chain(carried.iter().map(tokens)).sum::<u64>() + u64::from(summary.tokens) + front;
    Sizes { before, after }
}

//! Compactions: when one is made, with which summary, and under which authority.
//!
//! - [`fit`]: for a turn whose context does not fit, under its lease, before the model is called.
//! - [`mod@prepare`]: prepares a summary after an answer, so that the next turn need not wait for one.
//! - [`manual`]: compactions that a caller asks for, and undoing one.
//! - [`draft`]: what all of these use: a plan and its summary, new or prepared.
//! - [`summarise`]: asks the model for a summary, and asks again.
//! - [`by_client`]: notes what a client has compacted itself.
//! - [`cool_down`]: pauses after failed summaries.
//!
//! A conversation is compacted by one call of the store, [`herma_store::Store::compact`]. Before it nothing changes.

mod by_client;
mod cool_down;
mod draft;
mod fit;
mod manual;
mod prepare;
mod summarise;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use herma_model::compaction::CompactionOutcome;
use herma_model::tokens::{self, Counted};
use herma_model::turn::FailureCode;
use herma_model::{Alias, Compaction, Message, Payload, Principal, TurnFailure, Utterance};
use herma_store::{Compacted, Pin, Snapshot};
use herma_turn::compaction::{size, system_tokens};
use herma_turn::{Budget, Transcript};

use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::models::{ModelServers, ResolvedModel};
use crate::request::TurnRequest;
use crate::spans::{Purpose, Traced};

use cool_down::CoolDown;
pub(crate) use draft::CompactionListener;
use draft::Drafts;
use summarise::{Summarised, SummaryTask};

pub(crate) use fit::{CompactionPlan, Fit};
pub use manual::{CompactionRequest, Preview, UndoRequest};
pub(crate) use prepare::{Preparations, prepare};

/// Least token limit of a summary for a client, however short its context is.
const LEAST_FOR_CLIENT: u64 = 512;

/// Prepared summaries, pauses and counts. All of it can be lost.
pub(crate) struct Compactor {
    drafts: Drafts,
    cool_down: CoolDown,
    pub(crate) preparations: Preparations,
    count: Count,
}

impl Compactor {
    pub(crate) fn of(servers: &ModelServers) -> Self {
        Self {
            drafts: Drafts::default(),
            cool_down: CoolDown::default(),
            preparations: Preparations::of(servers),
            count: Count::default(),
        }
    }
}

/// Compactions of this process so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compactions {
    /// Those that replaced a part of the context by a summary.
    pub applied: u64,
    /// Those that left a part out without a summary.
    pub trimmed: u64,
    /// Those that failed because there was no summary.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Count {
    applied: AtomicU64,
    trimmed: AtomicU64,
    failed: AtomicU64,
}

impl Count {
    fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// A snapshot as the `turn` crate takes it.
pub fn transcript(snapshot: &Snapshot) -> Transcript<'_> {
    Transcript {
        base: snapshot.base.as_deref(),
        messages: &snapshot.messages,
        rewound: &snapshot.rewound,
        whole: snapshot.whole,
        unanswered: &snapshot.unanswered,
        begun_anew: &snapshot.begun_anew,
    }
}

/// Tokens of a turn's context, estimated before the model server counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// All of it.
    pub(crate) total: u64,
    /// The part before the transcript: system messages and tools.
    pub(crate) front: u64,
}

impl Load {
    /// The load of a request that adds `new` messages to a conversation.
    pub(crate) fn of(request: &TurnRequest, before: Option<&Snapshot>, new: &[Utterance]) -> Self {
        let stored: &[Payload] = before.map_or(&[], |snapshot| &snapshot.system);
        let stored_system = system_tokens(stored);
        let system = match &request.input.instructions {
            Some(instructions) => system_tokens(std::slice::from_ref(instructions)),
            None => request.new_system().map_or(stored_system, system_tokens),
        };
        let tools = request.options.params.get("tools").map_or(0, |tools| u64::from(tokens::estimate(tools)));
        let front = system + tools;
        let new: u64 = new.iter().map(|said| u64::from(said.tokens)).sum();
        let known = before.map_or(front, |snapshot| {
            let counted = snapshot.counted.map(|counted| Counted {
                tokens: counted.tokens.saturating_add(system).saturating_sub(stored_system),
                ..counted
            });
            size(front, transcript(snapshot), counted)
        });
        Self { total: known.saturating_add(new), front }
    }
}

/// How full a model's context is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextSize {
    /// Tokens of what the model would be shown, as far as the model server has counted them; the rest is estimated.
    pub used: u64,
    /// How many tokens fit. `None` if that is not set.
    pub window: Option<u64>,
}

impl Gateway {
    /// How full the context of a conversation is, for this model. Cancel-safe.
    pub async fn context_size(
        &self,
        principal: &Principal,
        alias: &Alias,
        model: Option<&str>,
    ) -> Result<ContextSize, GatewayError> {
        let snapshot = self.sessions(principal).snapshot(alias, Pin::Head).await?;
        let used = size(system_tokens(&snapshot.system), transcript(&snapshot), snapshot.counted);
        Ok(ContextSize { used, window: self.settings.resolve_model(model).window.map(u64::from) })
    }

    /// Compactions of this process so far.
    pub fn compactions(&self) -> Compactions {
        let Count { applied, trimmed, failed } = &self.compactor.count;
        let [applied, trimmed, failed] = [applied, trimmed, failed].map(|count| count.load(Ordering::Relaxed));
        Compactions { applied, trimmed, failed }
    }

    /// Counts and logs a compaction that was written.
    fn compacted(&self, compacted: &Compacted) {
        let Compaction { id, mode, trigger, outcome, sizes, .. } = &compacted.record;
        let Count { applied, trimmed, .. } = &self.compactor.count;
        let count = if *outcome == CompactionOutcome::Trimmed { trimmed } else { applied };
        count.fetch_add(1, Ordering::Relaxed);
        tracing::info!(
            conversation = %compacted.facts.id, compaction = %id, mode = mode.as_str(), trigger = trigger.as_str(),
            outcome = outcome.as_str(), tokens_before = sizes.before, tokens_after = sizes.after, "compacted"
        );
    }

    fn budget(&self, window: u64) -> Budget {
        let compaction = &self.settings.compaction;
        Budget::of(window, compaction.threshold, compaction.keep_recent)
    }

    /// The context budget of a request, which may set its own threshold.
    fn budget_of(&self, request: &TurnRequest, window: u64) -> Budget {
        let Some(threshold) = request.options.compact_at else { return self.budget(window) };
        let as_if = (threshold as f64 / self.settings.compaction.threshold) as u64;
        Budget { window, ..self.budget(window.min(as_if)) }
    }

    /// Tokens of the newest messages that a compaction for this model would keep.
    pub(crate) fn kept_tokens(&self, asked: Option<&str>, messages: &[Arc<Message>]) -> u64 {
        let all = messages.iter().map(|message| u64::from(message.said.tokens)).sum();
        self.budget(self.settings.resolve_model(asked).window.map_or(all, u64::from).min(all)).keep
    }

    /// A summary of a context for a client that stores its conversation itself.
    pub(crate) async fn summarise_for_client(
        &self,
        request: &TurnRequest,
        covered: &[Payload],
    ) -> Result<Summarised, GatewayError> {
        let model = self.summary_model(request.options.model.as_deref());
        if model.name.is_empty() {
            return Err(GatewayError::no_model());
        }
        let all = system_tokens(covered);
        let task = SummaryTask {
            model,
            covered,
            limit: self.budget(model.window.map_or(all, u64::from)).summary.max(LEAST_FOR_CLIENT),
            timeout: self.settings.compaction.timeout,
            facts: herma_turn::summary::Facts::NotAsked,
            traced: Traced { trace: &request.trace, conversation: None, purpose: Purpose::Summary },
        };
        self.summarise(&task).await.map_err(|(why, _)| why.into())
    }

    /// The model that summarises conversations of the model `asked`.
    fn summary_model<'a>(&'a self, asked: Option<&'a str>) -> ResolvedModel<'a> {
        self.settings.resolve_model(self.settings.compaction.model.as_deref().or(asked))
    }

    /// Why a conversation cannot be compacted; `None` if it perhaps can.
    pub(crate) fn cannot_compact(&self) -> Option<String> {
        self.settings.compaction.mode.is_none().then(|| "compaction is off".to_owned())
    }
}

/// The failure of a context that does not fit: how long it is, why it cannot be compacted, what a client can do.
pub(crate) fn exceeded(what: &str, why: &str) -> TurnFailure {
    let advice = "start a new conversation, send less, or use a model with a larger context_window";
    TurnFailure::new(FailureCode::ContextLengthExceeded, format!("{what}; {why}; {advice}"))
}

/// Says that a context is longer than the model's window.
pub(crate) fn longer_than(tokens: u64, model: &str, window: u64) -> String {
    format!("the conversation needs about {tokens} tokens, and {model} takes {window}")
}

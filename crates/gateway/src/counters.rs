//! The gateway's metrics: turns by outcome, how long they took, and tokens.
//!
//! Labels are few and fixed words: `completed` or [`GatewayError::code`], never an id or a name that a client chose.
//! A front door that shows metrics registers these with its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use herma_model::{ModelFailure, RecallStatus, TurnFailure, Usage};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::error::GatewayError;
use crate::log::TurnEvent;
use crate::spans::failure_word;

/// The outcome of a turn with an answer.
const COMPLETED: &str = "completed";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

/// The counts so far. Clones share them.
#[derive(Debug, Clone)]
pub struct Counters {
    turns: Family<OutcomeLabel, Counter>,
    turn_seconds: Histogram,
    passed_on: Family<OutcomeLabel, Counter>,
    input_tokens: Counter,
    output_tokens: Counter,
    commit_seconds: Histogram,
    model_failures: Family<KindLabel, Counter>,
    recalls: Family<StatusLabel, Counter>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            turns: Family::default(),
            turn_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 18)),
            passed_on: Family::default(),
            input_tokens: Counter::default(),
            output_tokens: Counter::default(),
            commit_seconds: Histogram::new(exponential_buckets(0.0005, 2.0, 15)),
            model_failures: Family::default(),
            recalls: Family::default(),
        }
    }
}

impl Counters {
    /// Adds them to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("turns", "Chat turns answered, by outcome", self.turns.clone());
        registry.register("turn_seconds", "Time from request to the end of its turn", self.turn_seconds.clone());
        registry.register("passed_on", "Requests passed on to the model server, by outcome", self.passed_on.clone());
        registry.register("input_tokens", "Prompt tokens reported by the model server", self.input_tokens.clone());
        registry.register("output_tokens", "Answer tokens reported by the model server", self.output_tokens.clone());
        registry.register("commit_seconds", "Time until the end of a turn is on disk", self.commit_seconds.clone());
        registry.register("model_failures", "Calls of model servers that failed, by kind", self.model_failures.clone());
        registry.register("recalls", "Recalls from long-term memory, by status", self.recalls.clone());
    }

    /// Begins to count a turn.
    pub(crate) fn begin(&self) -> Arc<TurnCount> {
        Arc::new(TurnCount { counters: self.clone(), began: Instant::now(), is_counted: AtomicBool::new(false) })
    }

    /// Counts a request that was passed on and answered.
    pub(crate) fn passed_on(&self) {
        self.passed_on.get_or_create(&OutcomeLabel { outcome: COMPLETED }).inc();
    }

    /// Counts a request that was passed on and failed.
    pub(crate) fn not_passed_on(&self, failure: &ModelFailure) {
        let outcome = GatewayError::Turn(TurnFailure::from(failure.clone())).code();
        self.passed_on.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    /// Counts a call of a model server that failed after its retries.
    pub(crate) fn model_failed(&self, failure: &ModelFailure) {
        self.model_failures.get_or_create(&KindLabel { kind: failure_word(failure.kind) }).inc();
    }

    /// Counts a recall from long-term memory.
    pub(crate) fn recalled(&self, status: RecallStatus) {
        self.recalls.get_or_create(&StatusLabel { status: status.as_str() }).inc();
    }

    /// Counts how long the store took to write the end of a turn.
    pub(crate) fn committed(&self, took: Duration) {
        self.commit_seconds.observe(took.as_secs_f64());
    }

    /// Counts the tokens of an answer.
    pub(crate) fn tokens(&self, usage: Usage) {
        self.input_tokens.inc_by(usage.input);
        self.output_tokens.inc_by(usage.output);
    }
}

/// The count of one turn. Its listener and its own task both report the end, and the first report counts. The listener
/// reports so that the numbers are right when a client sees the end. The task reports because the listener may be gone.
#[derive(Debug)]
pub(crate) struct TurnCount {
    counters: Counters,
    began: Instant,
    is_counted: AtomicBool,
}

impl TurnCount {
    /// Counts the turn if this event ends it.
    pub(crate) fn see(&self, event: &TurnEvent) {
        let (outcome, usage) = match event {
            TurnEvent::Finished(finished) => (COMPLETED, finished.answer.finish.usage.unwrap_or_default()),
            TurnEvent::Failed(error) => (error.code(), Usage::default()),
            TurnEvent::Queued { .. }
            | TurnEvent::Started { .. }
            | TurnEvent::Step { .. }
            | TurnEvent::Text(_)
            | TurnEvent::Delta(_) => {
                return;
            }
        };
        if self.is_counted.swap(true, Ordering::Relaxed) {
            return;
        }
        self.counters.turns.get_or_create(&OutcomeLabel { outcome }).inc();
        self.counters.turn_seconds.observe(self.began.elapsed().as_secs_f64());
        self.counters.tokens(usage);
    }
}

//! Asking a model for a summary, and once more if that does not work.

use std::sync::Arc;
use std::time::Duration;

use herma_model::generation::ModelFailureKind;
use herma_model::{ModelCall, ModelFailure, Params, Payload, Usage, Utterance};
use herma_turn::summary::{self, Unusable};
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::own_call::NoAnswer;

/// How often a summary is asked for.
const TRIES: usize = 2;
/// What a summariser's window is taken to be where nobody knows it.
const UNKNOWN_WINDOW: u64 = 1_000_000;

/// What is to be summarised, and how short.
pub(crate) struct Task<'a> {
    /// The model, by the model server's name.
    pub(crate) model: &'a str,
    /// How many tokens fit into it.
    pub(crate) window: Option<u64>,
    /// What was said, as the conversation's model was shown it.
    pub(crate) covered: &'a [Payload],
    /// Most tokens of the summary.
    pub(crate) limit: u64,
    /// How long one try may take.
    pub(crate) timeout: Duration,
}

/// A summary that can be used.
#[derive(Debug, Clone)]
pub(crate) struct Summarised {
    pub(crate) said: Utterance,
    pub(crate) cost: Cost,
}

/// What the tries at a summary took.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cost {
    pub(crate) model: String,
    pub(crate) usage: Usage,
    pub(crate) duration_ms: u64,
}

/// Why there is no summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoSummary {
    #[error("{0}")]
    Failed(ModelFailure),
    #[error("{0}")]
    Unusable(#[from] Unusable),
    #[error("no summary came within {} seconds", .0.as_secs())]
    TimedOut(Duration),
}

impl NoSummary {
    /// Whether the model would fail any other conversation as well. What it says of this one is this one's matter.
    pub(crate) const fn is_silence(&self) -> bool {
        match self {
            Self::TimedOut(_) => true,
            Self::Unusable(_) => false,
            Self::Failed(failure) => match (failure.kind, failure.status) {
                (ModelFailureKind::Unreachable | ModelFailureKind::Timeout, _) => true,
                (ModelFailureKind::Status, Some(status)) => matches!(status, 401 | 403 | 404 | 429 | 500..),
                _ => false,
            },
        }
    }
}

impl Gateway {
    /// A summary, and if there is none, why the last try failed. Says what it took in both cases. Cancel-safe.
    pub(crate) async fn summarise(&self, task: &Task<'_>) -> Result<Summarised, (NoSummary, Cost)> {
        let began = Instant::now();
        let mut cost = Cost { model: task.model.to_owned(), ..Cost::default() };
        let mut tries = 0;
        loop {
            let tried = tokio::time::timeout(task.timeout, self.try_summary(task, &mut cost.usage)).await;
            cost.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let why = match tried {
                Ok(Ok(text)) => return Ok(Summarised { said: summary::utterance(&text), cost }),
                Ok(Err(why)) => why,
                Err(_) => NoSummary::TimedOut(task.timeout),
            };
            tries += 1;
            tracing::warn!(model = task.model, %why, tries, "a summary could not be made");
            if tries == TRIES {
                return Err((why, cost));
            }
        }
    }

    /// Feeds the conversation part by part; each part's summary is the beginning of the next request.
    async fn try_summary(&self, task: &Task<'_>, usage: &mut Usage) -> Result<String, NoSummary> {
        let room = task.window.unwrap_or(UNKNOWN_WINDOW).saturating_sub(2 * task.limit);
        let mut so_far: Option<String> = None;
        for part in summary::parts(task.covered, room) {
            let call = ModelCall {
                model: task.model.to_owned(),
                messages: summary::request(&part, so_far.as_deref(), task.limit),
                params: Arc::new(Params::default()),
                streaming: true,
            };
            let is_far_too_long = |text: &str| summary::is_far_too_long(text, task.limit);
            let answer = self.whole_answer(call, is_far_too_long).await.map_err(|why| match why {
                NoAnswer::Failed(failure) => NoSummary::Failed(failure),
                NoAnswer::TooLong(bytes) => Unusable::TooLong { tokens: bytes as u64 / 4, limit: task.limit }.into(),
            })?;
            *usage += answer.finish.usage.unwrap_or_default();
            so_far = Some(summary::judge(&answer, task.limit)?);
        }
        so_far.ok_or(NoSummary::Unusable(Unusable::Empty))
    }
}

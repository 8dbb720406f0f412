//! Asking a model for a summary, and once more, in simpler words, if its answer cannot be used.

use std::sync::Arc;
use std::time::Duration;

use herma_model::generation::ModelFailureKind;
use herma_model::{ModelCall, ModelFailure, Params, Payload, Retries, Usage, Utterance};
use herma_turn::compaction::system_tokens;
use herma_turn::summary::{self, Unusable, Wording};
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

/// How one try asks.
#[derive(Debug, Clone, Copy)]
struct Manner {
    wording: Wording,
    /// Whether the request limits how much the model may write. Some servers refuse the field, and some models think
    /// longer than that before they write anything.
    is_bounded: bool,
    /// How many tokens fit into the model, as far as is known.
    window: u64,
}

impl Manner {
    /// How to ask after a try that failed.
    fn after(self, why: &NoSummary, task: &Task<'_>) -> Self {
        match why {
            NoSummary::Unusable(why) => {
                let is_bounded = !matches!(why, Unusable::Empty | Unusable::CutOff);
                Self { wording: Wording::Simple, is_bounded, ..self }
            }
            NoSummary::Failed(failure) => match (failure.kind, failure.status) {
                (ModelFailureKind::ContextTooLong, _) => {
                    Self { window: self.window.min(system_tokens(task.covered)) / 2, ..self }
                }
                (ModelFailureKind::Status, Some(400 | 422)) | (ModelFailureKind::Nonsense, _) => {
                    Self { is_bounded: false, ..self }
                }
                _ => self,
            },
            NoSummary::TimedOut(_) => self,
        }
    }
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
    /// Why, for a log: without words of the model server.
    pub(super) fn for_log(&self) -> String {
        match self {
            Self::Failed(failure) => failure.for_log().into_owned(),
            Self::Unusable(_) | Self::TimedOut(_) => self.to_string(),
        }
    }

    /// True if the model is down for every conversation, not only for this one.
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
        let window = task.window.unwrap_or(UNKNOWN_WINDOW);
        let mut manner = Manner { wording: Wording::Full, is_bounded: true, window };
        loop {
            let tried = tokio::time::timeout(task.timeout, self.try_summary(task, manner, &mut cost.usage)).await;
            cost.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let why = match tried {
                Ok(Ok(text)) => return Ok(Summarised { said: summary::utterance(&text), cost }),
                Ok(Err(why)) => why,
                Err(_) => NoSummary::TimedOut(task.timeout),
            };
            tries += 1;
            tracing::warn!(model = task.model, why = %why.for_log(), tries, "a summary could not be made");
            if tries == TRIES {
                return Err((why, cost));
            }
            manner = manner.after(&why, task);
        }
    }

    /// Feeds the conversation part by part; each part's summary is the beginning of the next request.
    async fn try_summary(&self, task: &Task<'_>, manner: Manner, usage: &mut Usage) -> Result<String, NoSummary> {
        let room = manner.window.saturating_sub(2 * task.limit);
        let mut so_far: Option<String> = None;
        for part in summary::parts(task.covered, room) {
            let messages = summary::request(&part, so_far.as_deref(), task.limit, manner.wording);
            let most = summary::most_output(&messages, manner.window, task.limit);
            let bound = manner.is_bounded.then(|| (Box::from("max_tokens"), Arc::from(most.to_string())));
            let call = ModelCall {
                model: task.model.to_owned(),
                messages,
                params: Arc::new(Params(bound.into_iter().collect())),
                streaming: true,
                retries: Retries::AsConfigured,
            };
            let is_far_too_long = |text: &str| summary::is_far_too_long(text, task.limit);
            so_far = Some(match self.whole_answer(call, is_far_too_long).await {
                Ok(answer) => {
                    *usage += answer.finish.usage.unwrap_or_default();
                    summary::judge(&answer, task.limit)?
                }
                Err(NoAnswer::TooLong(beginning)) => summary::judge_beginning(&beginning, task.limit)?,
                Err(NoAnswer::Failed(failure)) => return Err(NoSummary::Failed(failure)),
            });
        }
        so_far.ok_or(NoSummary::Unusable(Unusable::Empty))
    }
}

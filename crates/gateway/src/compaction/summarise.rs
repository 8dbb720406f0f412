//! Asks a model for a summary. If the answer cannot be used, asks once more in simpler words.

use std::sync::Arc;
use std::time::Duration;

use herma_model::generation::ModelFailureKind;
use herma_model::{ModelCall, ModelFailure, Params, Payload, Retries, Usage, Utterance};
use herma_turn::compaction::system_tokens;
use herma_turn::summary::{self, Facts, Unusable, Wording};
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::models::ResolvedModel;
use crate::own_call::NoAnswer;
use crate::spans::Traced;

/// How often a summary is asked for.
const TRIES: usize = 2;
/// The assumed window of a summary model whose window is not configured.
const UNKNOWN_WINDOW: u64 = 1_000_000;

/// What to summarise, and how short.
pub(crate) struct SummaryTask<'a> {
    /// The model that summarises.
    pub(crate) model: ResolvedModel<'a>,
    /// The messages, as the conversation's model was shown them.
    pub(crate) covered: &'a [Payload],
    /// Most tokens of the summary.
    pub(crate) limit: u64,
    /// How long one try may take.
    pub(crate) timeout: Duration,
    /// Whether the summary is to end with facts about the user.
    pub(crate) facts: Facts,
    /// Where its calls belong in a trace.
    pub(crate) traced: Traced<'a>,
}

impl SummaryTask<'_> {
    /// A summary without the facts that it lists, and these facts.
    fn without_facts(&self, text: String) -> (String, Vec<String>) {
        match self.facts {
            Facts::NotAsked => (text, Vec::new()),
            Facts::Asked => (summary::without_facts(&text), summary::facts(&text)),
        }
    }
}

/// How the model is asked in one try.
#[derive(Debug, Clone, Copy)]
struct RequestStyle {
    wording: Wording,
    /// Whether the request limits how much the model may write. Some servers refuse the field. Some models use up the
    /// limit for thinking before they write anything.
    is_bounded: bool,
    /// How many tokens are assumed to fit into the model.
    window: u64,
}

impl RequestStyle {
    /// How to ask after a try that failed.
    fn after(self, why: &NoSummary, task: &SummaryTask<'_>) -> Self {
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
    /// The summary, without the facts that it listed.
    pub(crate) said: Utterance,
    /// The facts that it listed, if they were asked for.
    pub(crate) facts: Vec<String>,
    pub(crate) cost: SummaryCost,
}

/// The cost of the tries at a summary.
#[derive(Debug, Clone, Default)]
pub(crate) struct SummaryCost {
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
    /// The reason, for a log: without text of the model server.
    pub(super) fn for_log(&self) -> String {
        match self {
            Self::Failed(failure) => failure.for_log().into_owned(),
            Self::Unusable(_) | Self::TimedOut(_) => self.to_string(),
        }
    }

    /// True if the model is down for every conversation, not only for this one.
    pub(crate) const fn is_model_down(&self) -> bool {
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
    /// Makes a summary. The error says why the last try failed. Both say what the tries cost. Cancel-safe.
    pub(crate) async fn summarise(&self, task: &SummaryTask<'_>) -> Result<Summarised, (NoSummary, SummaryCost)> {
        let began = Instant::now();
        let mut cost = SummaryCost { model: task.model.name.to_owned(), ..SummaryCost::default() };
        let mut tries = 0;
        let window = task.model.window.map_or(UNKNOWN_WINDOW, u64::from);
        let mut style = RequestStyle { wording: Wording::Full, is_bounded: true, window };
        loop {
            let tried = tokio::time::timeout(task.timeout, self.try_summary(task, style, &mut cost.usage)).await;
            cost.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let why = match tried {
                Ok(Ok((text, facts))) => return Ok(Summarised { said: summary::utterance(&text), facts, cost }),
                Ok(Err(why)) => why,
                Err(_) => NoSummary::TimedOut(task.timeout),
            };
            tries += 1;
            tracing::warn!(model = task.model.name, why = %why.for_log(), tries, "a summary could not be made");
            if tries == TRIES {
                return Err((why, cost));
            }
            style = style.after(&why, task);
        }
    }

    /// Summarises the conversation part by part. The summary of each part, without its facts, begins the next request.
    /// Returns the last summary and the facts of all parts.
    async fn try_summary(
        &self,
        task: &SummaryTask<'_>,
        style: RequestStyle,
        usage: &mut Usage,
    ) -> Result<(String, Vec<String>), NoSummary> {
        let part_limit = style.window.saturating_sub(2 * task.limit);
        let mut so_far: Option<String> = None;
        let mut facts = Vec::new();
        for part in summary::parts(task.covered, part_limit) {
            let messages = summary::request(&part, so_far.as_deref(), task.limit, style.wording, task.facts);
            let most = summary::most_output(&messages, style.window, task.limit);
            let bound = style.is_bounded.then(|| (Box::from("max_tokens"), Arc::from(most.to_string())));
            let call = ModelCall {
                model: task.model.name.to_owned(),
                messages,
                params: Arc::new(Params(bound.into_iter().collect())),
                streaming: true,
                retries: Retries::AsConfigured,
                trace: None,
            };
            let is_far_too_long = |text: &str| summary::is_far_too_long(text, task.limit);
            let answer = match self.whole_answer(task.model.server, call, &task.traced, is_far_too_long).await {
                Ok(answer) => {
                    *usage += answer.finish.usage.unwrap_or_default();
                    summary::judge(&answer, task.limit)?
                }
                Err(NoAnswer::TooLong(beginning)) => summary::judge_beginning(&beginning, task.limit)?,
                Err(NoAnswer::Failed(failure)) => return Err(NoSummary::Failed(failure)),
            };
            let (text, listed) = task.without_facts(answer);
            facts.extend(listed.into_iter().filter(|fact| !facts.contains(fact)).collect::<Vec<_>>());
            so_far = Some(text);
        }
        Ok((so_far.ok_or(Unusable::Empty)?, facts))
    }
}

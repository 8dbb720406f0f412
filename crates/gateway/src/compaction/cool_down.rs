//! Pauses after failed summaries: of a conversation whose summaries fail, or of a model of a server that is down.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use herma_model::ConversationId;

use crate::models::{ResolvedModel, ServerId};

/// The first pause. Each further failure in a row doubles it.
const FIRST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);
/// Number of entries from which ended pauses are removed.
const MANY: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum PausedSubject {
    Conversation(ConversationId),
    Model(ServerId, String),
}

impl PausedSubject {
    fn model(model: &ResolvedModel<'_>) -> Self {
        Self::Model(model.server, model.name.to_owned())
    }
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    failures: u32,
}

/// The present pauses.
#[derive(Debug, Default)]
pub(crate) struct CoolDown {
    pauses: Mutex<HashMap<PausedSubject, Pause>>,
}

impl CoolDown {
    /// How long to wait before this model may summarise this conversation. `None` if it may now.
    pub(crate) fn wait(
        &self,
        conversation: ConversationId,
        model: &ResolvedModel<'_>,
        now: Instant,
    ) -> Option<Duration> {
        let pauses = self.lock();
        let left =
            |subject: &PausedSubject| pauses.get(subject).map(|pause| pause.until.saturating_duration_since(now));
        let left = left(&PausedSubject::Conversation(conversation)).max(left(&PausedSubject::model(model)));
        left.filter(|left| !left.is_zero())
    }

    /// Notes a failure. `is_down` if the model cannot summarise any conversation now.
    pub(crate) fn failed(&self, conversation: ConversationId, model: &ResolvedModel<'_>, is_down: bool, now: Instant) {
        let mut pauses = self.lock();
        if pauses.len() >= MANY {
            pauses.retain(|_, pause| pause.until > now);
        }
        let subjects = [Some(PausedSubject::Conversation(conversation)), is_down.then(|| PausedSubject::model(model))];
        for subject in subjects.into_iter().flatten() {
            let pause = pauses.entry(subject).or_insert(Pause { until: now, failures: 0 });
            pause.until = now + (FIRST * 2_u32.pow(pause.failures.min(5))).min(LONGEST);
            pause.failures += 1;
        }
    }

    /// Notes a summary: the pauses of its conversation and its model end.
    pub(crate) fn worked(&self, conversation: ConversationId, model: &ResolvedModel<'_>) {
        let mut pauses = self.lock();
        if !pauses.is_empty() {
            pauses.remove(&PausedSubject::Conversation(conversation));
            pauses.remove(&PausedSubject::model(model));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PausedSubject, Pause>> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn conversation(number: u128) -> ConversationId {
        ConversationId::from_uuid(Uuid::from_u128(number))
    }

    fn model(name: &str) -> ResolvedModel<'_> {
        ResolvedModel { name, server: ServerId::Upstream, window: None, price: None }
    }

    #[test]
    fn pauses_grow_with_failures_and_end_with_a_summary() {
        let (cool_down, now) = (CoolDown::default(), Instant::now());
        assert_eq!(cool_down.wait(conversation(1), &model("m"), now), None);
        cool_down.failed(conversation(1), &model("m"), false, now);
        assert_eq!(cool_down.wait(conversation(1), &model("m"), now), Some(FIRST));
        assert_eq!(cool_down.wait(conversation(2), &model("m"), now), None, "only this conversation pauses");
        let later = now + FIRST;
        assert_eq!(cool_down.wait(conversation(1), &model("m"), later), None);
        cool_down.failed(conversation(1), &model("m"), false, later);
        assert_eq!(cool_down.wait(conversation(1), &model("m"), later), Some(FIRST * 2));
        cool_down.worked(conversation(1), &model("m"));
        assert_eq!(cool_down.wait(conversation(1), &model("m"), later), None);
    }

    #[test]
    fn a_model_that_is_down_pauses_for_all_conversations() {
        let (cool_down, now) = (CoolDown::default(), Instant::now());
        cool_down.failed(conversation(1), &model("m"), true, now);
        assert_eq!(cool_down.wait(conversation(2), &model("m"), now), Some(FIRST));
        assert_eq!(cool_down.wait(conversation(2), &model("other"), now), None);
        let elsewhere = ResolvedModel { server: ServerId::Other(0), ..model("m") };
        assert_eq!(cool_down.wait(conversation(2), &elsewhere, now), None, "a model of the same name elsewhere");
    }
}

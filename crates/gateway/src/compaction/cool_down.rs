//! Whom not to ask for a summary for a while: a conversation whose summaries fail, a model that does not answer.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use herma_model::ConversationId;

/// The first pause. Each failure in a row doubles it.
const FIRST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);
/// Entries above which those that are over are dropped.
const MANY: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Who {
    Conversation(ConversationId),
    Model(String),
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    failures: u32,
}

/// Pauses that are under way.
#[derive(Debug, Default)]
pub(crate) struct CoolDown {
    pauses: Mutex<HashMap<Who, Pause>>,
}

impl CoolDown {
    /// How long to wait before this model is asked about this conversation again.
    pub(crate) fn wait(&self, conversation: ConversationId, model: &str, now: Instant) -> Option<Duration> {
        let pauses = self.lock();
        let left = |who: &Who| pauses.get(who).map(|pause| pause.until.saturating_duration_since(now));
        let left = left(&Who::Conversation(conversation)).max(left(&Who::Model(model.to_owned())));
        left.filter(|left| !left.is_zero())
    }

    /// Takes note of a failure; `silent` if the model did not answer at all, so that asking it about anything else is as useless.
    pub(crate) fn failed(&self, conversation: ConversationId, model: &str, silent: bool, now: Instant) {
        let mut pauses = self.lock();
        if pauses.len() >= MANY {
            pauses.retain(|_, pause| pause.until > now);
        }
        let whom = [Some(Who::Conversation(conversation)), silent.then(|| Who::Model(model.to_owned()))];
        for who in whom.into_iter().flatten() {
            let pause = pauses.entry(who).or_insert(Pause { until: now, failures: 0 });
            pause.until = now + (FIRST * 2_u32.pow(pause.failures.min(5))).min(LONGEST);
            pause.failures += 1;
        }
    }

    /// Takes note of a summary.
    pub(crate) fn worked(&self, conversation: ConversationId, model: &str) {
        let mut pauses = self.lock();
        if !pauses.is_empty() {
            pauses.remove(&Who::Conversation(conversation));
            pauses.remove(&Who::Model(model.to_owned()));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Who, Pause>> {
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

    #[test]
    fn pauses_grow_with_failures_and_end_with_a_summary() {
        let (cool_down, now) = (CoolDown::default(), Instant::now());
        assert_eq!(cool_down.wait(conversation(1), "m", now), None);
        cool_down.failed(conversation(1), "m", false, now);
        assert_eq!(cool_down.wait(conversation(1), "m", now), Some(FIRST));
        assert_eq!(cool_down.wait(conversation(2), "m", now), None, "another conversation may fare better");
        let later = now + FIRST;
        assert_eq!(cool_down.wait(conversation(1), "m", later), None);
        cool_down.failed(conversation(1), "m", false, later);
        assert_eq!(cool_down.wait(conversation(1), "m", later), Some(FIRST * 2));
        cool_down.worked(conversation(1), "m");
        assert_eq!(cool_down.wait(conversation(1), "m", later), None);
    }

    #[test]
    fn a_model_that_does_not_answer_is_not_asked_about_anything() {
        let (cool_down, now) = (CoolDown::default(), Instant::now());
        cool_down.failed(conversation(1), "m", true, now);
        assert_eq!(cool_down.wait(conversation(2), "m", now), Some(FIRST));
        assert_eq!(cool_down.wait(conversation(2), "other", now), None);
    }
}

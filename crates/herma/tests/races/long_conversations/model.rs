//! A scripted model server that counts tokens as Herma estimates them. Each of its answers is unique.

use std::sync::{Arc, Mutex, MutexGuard};

use herma_model::tokens::estimate;
use herma_testkit::{Completion, Recorded, Reply, ScriptedUpstream, ToolCall};
use serde_json::Value;

use super::steps::ModelReply;
use crate::long::is_summary;

/// What the model server does next. Clones share it.
#[derive(Clone, Default)]
pub(super) struct ScriptedModel(Arc<Mutex<Plans>>);

#[derive(Default)]
struct Plans {
    next: Option<ModelReply>,
    failing_summaries: usize,
    said: usize,
}

impl ScriptedModel {
    /// Makes the server answer as scripted here.
    pub(super) fn install(upstream: &ScriptedUpstream) -> Self {
        let model = Self::default();
        let answering = model.clone();
        upstream.otherwise(move |request| answering.reply(request));
        model
    }

    /// Sets the reply to the next call that is not for a summary.
    pub(super) fn script(&self, answer: ModelReply) {
        self.lock().next = Some(answer);
    }

    /// Makes both attempts at the next summary fail.
    pub(super) fn fail_next_summary(&self) {
        self.lock().failing_summaries = 2;
    }

    fn lock(&self) -> MutexGuard<'_, Plans> {
        self.0.lock().unwrap()
    }

    fn reply(&self, request: &Recorded) -> Reply {
        let mut plans = self.lock();
        plans.said += 1;
        let number = plans.said;
        if is_summary(request) {
            let fails = plans.failing_summaries > 0;
            plans.failing_summaries = plans.failing_summaries.saturating_sub(1);
            return if fails { Reply::empty() } else { Reply::text(format!("Summary {number} of the trip.")) };
        }
        match plans.next.take().unwrap_or(ModelReply::Text) {
            ModelReply::Text => counted(request, Completion::text(format!("answer {number} and so on"))),
            ModelReply::Calls(count) => {
                let calls = (0..count).map(|call| ToolCall::new(&format!("call-{number}-{call}"), "find", "{}"));
                counted(request, Completion { calls: calls.collect(), ..Completion::default() })
            }
            ModelReply::Error => Reply::status(400, "no"),
            ModelReply::CutOff => Reply::cut_off_after(1),
            ModelReply::TooLong => Reply::context_too_long(),
        }
    }
}

fn counted(request: &Recorded, completion: Completion) -> Reply {
    let answered = 20 + 30 * completion.calls.len() as u64;
    completion.usage(tokens(request.messages()), answered).into()
}

/// The tokens of messages, as Herma estimates them.
pub(super) fn tokens(messages: &[Value]) -> u64 {
    messages.iter().map(|message| u64::from(estimate(&message.to_string()))).sum()
}

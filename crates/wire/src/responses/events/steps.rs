//! The steps of a turn: as events of its stream, and as items of its object. Both have the same items.

use herma_model::{MessageId, Step};

use super::Events;
use crate::own_tools::{CallResult, made_calls};
use crate::responses::item::{Item, ItemStatus};
use crate::responses::mcp::earlier_item;
use crate::responses::object::{ResponseOutcome, ResponseState};
use crate::responses::transcript::{compaction_item, said_items};
use crate::sse::Frame;

impl Events {
    /// The turn made a step. `next` is the id that its next model message will have.
    ///
    /// The pieces of a model message come before its step, by [`Events::delta`]. Calls of the client's tools beside
    /// calls of Herma's own come after all results.
    pub fn step(&mut self, step: &Step, next: MessageId) -> Vec<Frame> {
        match step {
            Step::Compacted(id) => {
                self.emit_compaction(compaction_item(*id, id.to_string()));
                if next != self.message {
                    self.begin_model_message(next);
                }
            }
            Step::Said(message) => {
                self.end_last();
                let calls = made_calls(&message.said);
                self.begin_own_calls(message.id, &calls);
                self.client_calls_follow = calls.len() < message.said.calls.len();
                self.begin_model_message(if self.client_calls_follow { message.id } else { next });
            }
            Step::Answered(..) => {}
            Step::ToolResult(message) => {
                if let Some(result) = CallResult::of(&message.said) {
                    self.end_own_call(message.id, &result);
                }
                if !self.client_calls_follow {
                    self.begin_model_message(next);
                }
            }
        }
        self.take_frames()
    }
}

/// The output of a response: its steps as items.
pub fn output(steps: &[Step], state: &ResponseState) -> Vec<Item> {
    let is_cut = matches!(state, ResponseState::Ended(ResponseOutcome::Incomplete(_)));
    let has_ended = matches!(state, ResponseState::Ended(_));
    let last = steps.iter().rposition(|step| step.model_message().is_some());
    let mut items = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Compacted(id) => items.push(compaction_item(*id, id.to_string())),
            Step::Said(message) => {
                let is_cut = is_cut && Some(at) == last;
                let status = if is_cut { ItemStatus::Incomplete } else { ItemStatus::from(message.said.status) };
                items.extend(said_items(message.id, &message.said, status, &results_of(&steps[at + 1..])));
            }
            Step::Answered(..) => {}
            Step::ToolResult(message) => items.extend(earlier_item(message.id, &message.said)),
        }
    }
    // A call without a result can only end with its turn.
    for item in items.iter_mut().filter(|_| has_ended) {
        if let Item::McpCall { status: status @ ItemStatus::InProgress, .. } = item {
            *status = ItemStatus::Incomplete;
        }
    }
    items
}

/// The results of the calls of a message. `later` has the steps after it.
fn results_of(later: &[Step]) -> Vec<CallResult> {
    let own = later.iter().take_while(|step| step.model_message().is_none());
    own.filter_map(|step| CallResult::of(&step.stored_message()?.said)).collect()
}

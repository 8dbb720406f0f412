//! Events of the calls of Herma's own tools.

use herma_model::{CallStatus, MessageId, tool};

use super::Events;
use crate::own_tools::{CallResult, MadeCall};
use crate::responses::item::{Item, ItemStatus};
use crate::responses::mcp::{approval_request, end_call, mcp_call};

impl Events {
    /// Pieces that come from now on belong to this message.
    pub(super) fn begin_model_message(&mut self, id: MessageId) {
        self.message = id;
        self.first_entry = self.entries.len();
        self.calls.clear();
        self.logprobs.clear();
    }

    /// Begins the items of calls. If a person is asked about one of them, the questions are the items, and the turn
    /// ends with them.
    pub(super) fn begin_own_calls(&mut self, message: MessageId, calls: &[MadeCall]) {
        self.own_calls.clear();
        for (nth, call) in calls.iter().enumerate() {
            if call.own.asks {
                let mut item = approval_request(message, nth, call);
                item.set_status(ItemStatus::InProgress);
                let at = self.open(item);
                self.close(at, ItemStatus::Completed);
            } else if !call.own.waits {
                let at = self.begin_own_call(mcp_call(message, nth, call));
                self.own_calls.push((call.own.id.clone(), at));
            }
        }
    }

    /// Begins the item of a call, with all its arguments.
    fn begin_own_call(&mut self, mut item: Item) -> usize {
        let Item::McpCall { arguments, .. } = &mut item else { return self.open(item) };
        let text = std::mem::take(arguments);
        let at = self.open(item);
        self.emit_state("response.mcp_call.in_progress", at);
        if let Item::McpCall { arguments, .. } = &mut self.entries[at].item {
            arguments.clone_from(&text);
        }
        if !text.is_empty() {
            self.emit_delta("response.mcp_call_arguments.delta", at, None, &text);
        }
        self.emit_text_done("response.mcp_call_arguments.done", at, 0);
        at
    }

    /// A call has its result. The item of a call that an earlier turn made begins here too.
    pub(super) fn end_own_call(&mut self, message: MessageId, result: &CallResult) {
        let at = match result.earlier_call() {
            Some(call) => {
                self.end_last();
                self.begin_own_call(mcp_call(message, 0, &call))
            }
            None => match self.own_calls.iter().find(|(id, _)| *id == result.id) {
                Some((_, at)) => *at,
                None => return,
            },
        };
        self.settle(at, result);
    }

    /// The turn ended without the results of these calls. It is not known whether they were carried out.
    pub(super) fn end_open_own_calls(&mut self) {
        for (id, at) in std::mem::take(&mut self.own_calls) {
            let uncertain = CallResult {
                id,
                status: CallStatus::Uncertain,
                duration_ms: 0,
                text: tool::UNCERTAIN.to_owned(),
                earlier: None,
                old_text: None,
            };
            self.settle(at, &uncertain);
        }
    }

    fn settle(&mut self, at: usize, result: &CallResult) {
        if !self.entries[at].is_open {
            return;
        }
        end_call(&mut self.entries[at].item, result);
        let (kind, status) = match result.is_done() {
            true => ("response.mcp_call.completed", ItemStatus::Completed),
            false => ("response.mcp_call.failed", ItemStatus::Failed),
        };
        self.emit_state(kind, at);
        self.close(at, status);
    }
}

//! Ends items and the stream.

use serde::de::IgnoredAny;

use super::{Ending, Entry, Events};
use crate::client_tools::CustomInput;
use crate::responses::item::{Item, ItemStatus, Part};
use crate::responses::object::{ResponseOutcome, ResponseState};
use crate::session::SessionObject;
use crate::sse::Frame;

impl Events {
    /// Ends the stream: ends open items, and says how the response ended.
    pub fn end(mut self, ending: &Ending, session: Option<&SessionObject>) -> Vec<Frame> {
        let (has_answer, status) = match ending.outcome {
            ResponseOutcome::Completed => (true, ItemStatus::Completed),
            ResponseOutcome::Incomplete(_) => (true, ItemStatus::Incomplete),
            ResponseOutcome::Failed(_) | ResponseOutcome::Cancelled(_) => (false, ItemStatus::Incomplete),
        };
        if has_answer {
            self.begin_nameless_calls();
        }
        self.end_open_own_calls();
        let last = self.entries.len().saturating_sub(1);
        for at in 0..self.entries.len() {
            if has_answer || !self.entries[at].item.is_clients_call() {
                // The answer broke off in its last item. The items before it are complete.
                self.close(at, if at == last { status } else { ItemStatus::Completed });
            }
        }
        if !has_answer {
            let stays = |item: &Item| !(item.is_clients_call() || matches!(item, Item::Reasoning { .. }));
            let cut_off = self.entries.split_off(self.first_entry);
            self.entries.extend(cut_off.into_iter().filter(|entry| stays(&entry.item)));
            // The last message is not the whole answer, even if it had ended before.
            if let Some(Entry { item: item @ Item::Message { .. }, .. }) = self.entries[self.first_entry..].last_mut() {
                item.set_status(ItemStatus::Incomplete);
            }
        }
        let kind = match ending.outcome {
            ResponseOutcome::Completed => "response.completed",
            ResponseOutcome::Incomplete(_) => "response.incomplete",
            ResponseOutcome::Failed(_) | ResponseOutcome::Cancelled(_) => "response.failed",
        };
        let state = ResponseState::Ended(ending.outcome.clone());
        self.emit_response(kind, &state, Some((ending.at, ending.usage)), session);
        self.take_frames()
    }

    /// Ends the last item, because another one begins. A call stays open until its arguments are whole.
    pub(super) fn end_last(&mut self) {
        let Some(last) = self.entries.last() else { return };
        let at = self.entries.len() - 1;
        match (&last.item, &last.custom) {
            (Item::FunctionCall { arguments, .. }, _) if !is_whole(arguments) => {}
            (Item::CustomToolCall { .. }, Some(custom)) if !is_whole(custom.arguments()) => {}
            (Item::McpCall { .. }, _) => {}
            _ => self.close(at, ItemStatus::Completed),
        }
    }

    /// Ends an item, if it has not ended.
    pub(super) fn close(&mut self, at: usize, status: ItemStatus) {
        if !std::mem::replace(&mut self.entries[at].is_open, false) {
            return;
        }
        self.end_part(at);
        self.entries[at].item.set_status(status);
        self.emit_item("response.output_item.done", at);
    }

    /// Ends the last part of an item.
    pub(super) fn end_part(&mut self, at: usize) {
        match &self.entries[at].item {
            Item::Message { content, .. } if !content.is_empty() => {
                let part = content.len() - 1;
                let kind = match content.last() {
                    Some(Part::Refusal { .. }) => "response.refusal.done",
                    _ => "response.output_text.done",
                };
                self.emit_text_done(kind, at, part);
                self.emit_part("response.content_part.done", at, part);
            }
            Item::Reasoning { .. } => {
                self.emit_text_done("response.reasoning_summary_text.done", at, 0);
                self.emit_part("response.reasoning_summary_part.done", at, 0);
            }
            Item::FunctionCall { .. } => self.emit_text_done("response.function_call_arguments.done", at, 0),
            Item::CustomToolCall { .. } => {
                let rest = self.entries[at].custom.as_ref().map(CustomInput::rest).unwrap_or_default();
                self.custom_text(at, &rest);
                self.emit_text_done("response.custom_tool_call_input.done", at, 0);
            }
            _ => {}
        }
    }

    /// Begins the items of calls that never got a name. They are part of the answer too.
    fn begin_nameless_calls(&mut self) {
        for index in 0..self.calls.len() {
            if self.calls[index].entry.is_none() {
                self.begin_call(u32::try_from(index).unwrap_or(u32::MAX));
            }
        }
    }
}

/// Whether arguments are a whole JSON object, so that nothing can follow.
fn is_whole(arguments: &str) -> bool {
    arguments.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}

//! Calls of Herma's own tools as the protocol's tool calls. Their ids are the same live and in a replay.

use std::collections::{HashMap, HashSet};

use herma_model::{CallId, Message, OwnCall, Step};
use herma_wire::own_tools::{CallEvent, CallEvents, CallResult, MadeCall, made_calls};

use crate::content::text_block;
use crate::schema::{
    SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolContent,
    ToolKind,
};

/// The calls of a turn, or of a stored conversation.
#[derive(Default)]
pub(crate) struct ToolCalls {
    events: CallEvents,
    /// The protocol's id of each call. Model servers may give an id again in a later message.
    ids: HashMap<CallId, String>,
    /// The calls that the editor was told of, by the protocol's ids.
    told: HashSet<String>,
}

impl ToolCalls {
    /// What the editor is told of a step.
    pub(crate) fn step(&mut self, step: &Step) -> Vec<SessionUpdate> {
        if let Step::Said(message) = step {
            self.note(message);
        }
        let events = self.events.step(step);
        events.into_iter().filter_map(|event| self.told(event)).collect()
    }

    /// Remembers the ids of the calls that a message makes.
    fn note(&mut self, message: &Message) {
        for call in message.said.calls.iter() {
            self.ids.insert(call.clone(), format!("{}.{call}", message.id));
        }
    }

    fn told(&mut self, event: CallEvent) -> Option<SessionUpdate> {
        match event {
            CallEvent::Asked(call) => self.begun(&call, ToolCallStatus::Pending),
            CallEvent::Started(call) => self.begun(&call, ToolCallStatus::InProgress),
            CallEvent::Ended(call, result) if self.told.contains(&self.id(&call)) => {
                let fields = ToolCallUpdateFields::new().status(status(&result)).content(content(&result));
                Some(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(self.id(&call), fields)))
            }
            // It was not started, so it is told as a whole.
            CallEvent::Ended(call, result) => {
                Some(SessionUpdate::ToolCall(self.call(&call, status(&result)).content(content(&result))))
            }
            CallEvent::Responded(..) => None,
        }
    }

    /// A call that has not ended. The first time it is told as a whole, then only its status.
    fn begun(&mut self, call: &MadeCall, status: ToolCallStatus) -> Option<SessionUpdate> {
        let id = self.id(call);
        if self.told.insert(id.clone()) {
            return Some(SessionUpdate::ToolCall(self.call(call, status)));
        }
        let fields = ToolCallUpdateFields::new().status(status);
        Some(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields)))
    }

    /// The calls of a message that a person is asked about, as the editor shows them beside the question.
    pub(crate) fn asked(&self, message: &Message) -> Vec<(OwnCall, ToolCallUpdate)> {
        let calls = made_calls(&message.said).into_iter().filter(|call| call.own.asks);
        let shown = |call: MadeCall| {
            let shown = self.call(&call, ToolCallStatus::Pending);
            (call.own, shown.into())
        };
        calls.map(shown).collect()
    }

    fn call(&self, call: &MadeCall, status: ToolCallStatus) -> ToolCall {
        let title = format!("{}.{}", call.own.server, call.own.tool);
        let arguments = serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.clone().into());
        ToolCall::new(self.id(call), title).kind(ToolKind::Other).status(status).raw_input(Some(arguments))
    }

    fn id(&self, call: &MadeCall) -> String {
        self.ids.get(&call.own.id).cloned().unwrap_or_else(|| call.own.id.to_string())
    }
}

fn status(result: &CallResult) -> ToolCallStatus {
    if result.is_done() { ToolCallStatus::Completed } else { ToolCallStatus::Failed }
}

fn content(result: &CallResult) -> Vec<ToolCallContent> {
    vec![ToolCallContent::Content(ToolContent::new(text_block(&result.text)))]
}

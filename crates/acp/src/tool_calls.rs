//! Calls of Herma's own tools as the protocol's tool calls. Their ids are the same live and in a replay.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use herma_model::{CallId, Message, MessageId, OwnCall, Step};
use herma_wire::own_tools::{CallEvent, CallEvents, CallResult, MadeCall, made_calls};

use crate::call_board::CallBoard;
use crate::call_view::CallView;
use crate::content::text_block;
use crate::editor_tools::stored_change;
use crate::schema::{
    SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolContent,
};

/// The protocol's id of a call. Model servers may give an id again in a later message.
pub(crate) fn tool_call_id(message: MessageId, call: &CallId) -> String {
    format!("{message}.{call}")
}

/// The calls of a turn, or of a stored conversation.
pub(crate) struct ToolCalls {
    events: CallEvents,
    ids: HashMap<CallId, String>,
    /// The calls that the editor was told of, by the protocol's ids.
    told: HashSet<String>,
    /// The directory of the session.
    cwd: PathBuf,
    /// What calls show while they run. Empty in a replay.
    board: Arc<CallBoard>,
}

impl ToolCalls {
    pub(crate) fn new(cwd: PathBuf, board: Arc<CallBoard>) -> Self {
        Self { events: CallEvents::default(), ids: HashMap::new(), told: HashSet::new(), cwd, board }
    }

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
            self.ids.insert(call.clone(), tool_call_id(message.id, call));
        }
    }

    fn told(&mut self, event: CallEvent) -> Option<SessionUpdate> {
        match event {
            CallEvent::Asked(call) => Some(self.begun(&call, ToolCallStatus::Pending)),
            CallEvent::Started(call) => Some(self.begun(&call, ToolCallStatus::InProgress)),
            CallEvent::Ended(call, result) => {
                let id = self.id(&call);
                let content = self.final_content(&id, &call, &result);
                self.board.forget(&id);
                if self.told.contains(&id) {
                    let fields = ToolCallUpdateFields::new().status(status(&result)).content(content);
                    return Some(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields)));
                }
                // It was not started, so it is told as a whole.
                Some(SessionUpdate::ToolCall(self.call(&call, status(&result)).content(content)))
            }
            CallEvent::Responded(..) => None,
        }
    }

    /// A call that has not ended. The first time it is told as a whole, then only its status.
    fn begun(&mut self, call: &MadeCall, status: ToolCallStatus) -> SessionUpdate {
        let id = self.id(call);
        if self.told.insert(id.clone()) {
            return SessionUpdate::ToolCall(self.call(call, status));
        }
        let fields = ToolCallUpdateFields::new().status(status);
        SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
    }

    /// Notes that updates were sent. Returns what calls have put on the board meanwhile.
    pub(crate) fn sent(&self, updates: &[SessionUpdate]) -> Vec<SessionUpdate> {
        let late = updates.iter().filter_map(|update| {
            let SessionUpdate::ToolCall(call) = update else { return None };
            let content = self.board.told(&call.tool_call_id.0, call.content.first())?;
            let fields = ToolCallUpdateFields::new().content(vec![content]);
            Some(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(call.tool_call_id.clone(), fields)))
        });
        late.collect()
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
        let id = self.id(call);
        let CallView { title, kind, locations, arguments } = CallView::of(call, &self.cwd);
        let content = self.board.content(&id).into_iter().collect();
        ToolCall::new(id, title)
            .kind(kind)
            .status(status)
            .locations(locations)
            .content(content)
            .raw_input(Some(arguments))
    }

    fn id(&self, call: &MadeCall) -> String {
        self.ids.get(&call.own.id).cloned().unwrap_or_else(|| call.own.id.to_string())
    }

    /// A terminal shows the result itself, and a change is its own result. All else is shown as text.
    fn final_content(&self, id: &str, call: &MadeCall, result: &CallResult) -> Vec<ToolCallContent> {
        let text = || ToolCallContent::Content(ToolContent::new(text_block(&result.text)));
        let stored = || stored_change(&self.cwd, &call.arguments, result.old_text.as_deref()?);
        match self.board.content(id).or_else(stored) {
            Some(terminal @ ToolCallContent::Terminal(_)) => vec![terminal],
            Some(change) if result.is_done() => vec![change],
            Some(_) | None => vec![text()],
        }
    }
}

fn status(result: &CallResult) -> ToolCallStatus {
    if result.is_done() { ToolCallStatus::Completed } else { ToolCallStatus::Failed }
}

//! Items of calls of Herma's own tools: `mcp_call` and `mcp_approval_request`.
//!
//! They are never `function_call` items, because agent loops would run those themselves.

use herma_model::{CallStatus, MessageId, OwnCall, Step, Utterance};

use super::item::{Item, ItemStatus, McpError, McpErrorText};
use super::object::{ResponseOutcome, ResponseState};
use super::transcript::{compaction_item, said_items};
use crate::own_tools::{CallResult, MadeCall, made_calls};

/// JSON-RPC's code for an error of the server.
const SERVER_ERROR: i32 = -32000;

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
    own.filter_map(|step| match step {
        Step::ToolResult(message) => CallResult::of(&message.said),
        Step::Compacted(_) | Step::Said(_) | Step::Answered(..) => None,
    })
    .collect()
}

/// The items of the calls of Herma's own tools that a message makes.
///
/// A call that a person has to allow is a question until it has a result. A call that only waits for such an answer is
/// not shown before it has one.
pub(super) fn own_items(id: MessageId, said: &Utterance, results: &[CallResult]) -> Vec<Item> {
    let item = |(nth, call): (usize, &MadeCall)| {
        let result = results.iter().find(|result| result.earlier.is_none() && result.id == call.own.id);
        match result {
            Some(result) => {
                let mut item = mcp_call(id, nth, call);
                end_call(&mut item, result);
                Some(item)
            }
            None if call.own.asks => Some(approval_request(id, nth, call)),
            None if call.own.waits => None,
            None => Some(mcp_call(id, nth, call)),
        }
    };
    made_calls(said).iter().enumerate().filter_map(item).collect()
}

/// The item of a result whose call an earlier turn made. `None` for any other message.
pub(super) fn earlier_item(id: MessageId, said: &Utterance) -> Option<Item> {
    let result = CallResult::of(said)?;
    let call = earlier_call(&result)?;
    let mut item = mcp_call(id, 0, &call);
    end_call(&mut item, &result);
    Some(item)
}

/// The call of a result, if an earlier turn made it.
pub(super) fn earlier_call(result: &CallResult) -> Option<MadeCall> {
    let earlier = result.earlier.as_ref()?;
    let (server, tool) = (earlier.server.clone(), earlier.tool.clone());
    let own = OwnCall { id: result.id.clone(), server, tool, asks: false, waits: false };
    Some(MadeCall { own, arguments: earlier.arguments.to_string() })
}

/// The item of a call that has not ended.
pub(super) fn mcp_call(id: MessageId, nth: usize, call: &MadeCall) -> Item {
    Item::McpCall {
        id: format!("mcp_{}_{nth}", id.uuid().simple()),
        status: ItemStatus::InProgress,
        server_label: call.own.server.to_string(),
        name: call.own.tool.to_string(),
        arguments: call.arguments.clone(),
        output: None,
        error: None,
    }
}

/// The item of a question.
pub(super) fn approval_request(id: MessageId, nth: usize, call: &MadeCall) -> Item {
    Item::McpApprovalRequest {
        id: format!("mcpr_{}_{nth}", id.uuid().simple()),
        status: ItemStatus::Completed,
        server_label: call.own.server.to_string(),
        name: call.own.tool.to_string(),
        arguments: call.arguments.clone(),
        call: call.own.id.clone(),
    }
}

/// Ends the item of a call. A call that was denied, could not be made or is uncertain has failed.
pub(super) fn end_call(item: &mut Item, result: &CallResult) {
    let Item::McpCall { status, output, error, .. } = item else { return };
    let text = result.text.clone();
    if result.is_done() {
        *status = ItemStatus::Completed;
        *output = Some(text);
        return;
    }
    *status = ItemStatus::Failed;
    *error = Some(match result.status {
        CallStatus::Failed => {
            McpError::McpToolExecutionError { content: [McpErrorText { text: text.clone() }], message: text }
        }
        CallStatus::Done | CallStatus::Denied | CallStatus::NotMade | CallStatus::Uncertain => {
            McpError::McpProtocolError { code: SERVER_ERROR, message: text }
        }
    });
}

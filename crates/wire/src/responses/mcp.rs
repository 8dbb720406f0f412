//! Items of calls of Herma's own tools: `mcp_call`, `mcp_approval_request` and `mcp_approval_response`.
//!
//! They are never `function_call` items, because agent loops would run those themselves.

use herma_model::{CallStatus, Decision, MessageId, Utterance};

use super::item::{Item, ItemStatus, McpError, McpErrorText};
use crate::own_tools::{CallResult, MadeCall, made_calls};

/// JSON-RPC's code for an error of the server.
const SERVER_ERROR: i32 = -32000;

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
    let call = result.earlier_call()?;
    let mut item = mcp_call(id, 0, &call);
    end_call(&mut item, &result);
    Some(item)
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
        id: request_id(id, nth),
        status: ItemStatus::Completed,
        server_label: call.own.server.to_string(),
        name: call.own.tool.to_string(),
        arguments: call.arguments.clone(),
        call: call.own.id.clone(),
    }
}

/// The item of a person's answer. `None` if the call only waited for an answer about another one.
pub(super) fn approval_response(id: MessageId, decision: &Decision) -> Option<Item> {
    Some(Item::McpApprovalResponse {
        id: format!("mcpa_{}", id.uuid().simple()),
        approval_request_id: request_id(decision.message, decision.place),
        approve: decision.answer?.choice.allows(),
    })
}

fn request_id(message: MessageId, nth: usize) -> String {
    format!("mcpr_{}_{nth}", message.uuid().simple())
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

//! Removes one item from a message.

use herma_model::{MessageId, Role, Utterance};

use super::item::Item;
use super::transcript::items;
use crate::chat::{AnswerPart, without};

/// The prefixes of item ids.
const PREFIXES: [&str; 9] = ["msg_", "rs_", "fc_", "fco_", "ctc_", "ctco_", "mcp_", "mcpr_", "mcpa_"];

/// The id of an item's message. Whether the message and the item exist is not checked here.
pub fn message_of_item(id: &str) -> Option<MessageId> {
    let rest = PREFIXES.iter().find_map(|prefix| id.strip_prefix(prefix))?;
    let (hex, number) = rest.split_once('_').unwrap_or((rest, "0"));
    if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    format!("{}{hex}", MessageId::PREFIX).parse().ok()
}

/// The message without one of its items, in the form that it would have if a client had sent it so. `None` if it has no
/// such item. `Some(None)` if nothing is left; reasoning alone counts as nothing.
///
/// A call of one of Herma's own tools cannot be removed: no model server takes its result without it. Neither can what
/// was decided about it: the record of who allowed a call stays.
pub fn without_item(said: &Utterance, message: MessageId, item_id: &str) -> Option<Option<Utterance>> {
    let all = items(message, said, &[]);
    let at = all.iter().position(|item| item.id() == item_id)?;
    let part = match &all[at] {
        Item::McpCall { .. } | Item::McpApprovalRequest { .. } | Item::McpApprovalResponse { .. } => return None,
        _ if said.role != Role::Assistant => return Some(None),
        Item::Reasoning { .. } => AnswerPart::Reasoning,
        Item::FunctionCall { call_id, .. } | Item::CustomToolCall { call_id, .. } => {
            AnswerPart::Call(said.calls.iter().position(|call| **call == **call_id).unwrap_or(usize::MAX))
        }
        _ => AnswerPart::Text,
    };
    let rest = without(said, part).map(|rest| rest.with_own_calls(&said.own_calls()));
    Some(rest.filter(|rest| items(message, rest, &[]).iter().any(|item| !matches!(item, Item::Reasoning { .. }))))
}

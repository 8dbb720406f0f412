//! Removes one item from a message.

use herma_model::{MessageId, Role, Utterance};

use super::item::Item;
use super::transcript::items;
use crate::chat::{AnswerPart, without};

/// The prefixes of item ids.
const PREFIXES: [&str; 4] = ["msg_", "rs_", "fc_", "fco_"];

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
pub fn without_item(said: &Utterance, message: MessageId, item_id: &str) -> Option<Option<Utterance>> {
    let all = items(message, said);
    let at = all.iter().position(|item| item.id() == item_id)?;
    let part = match &all[at] {
        _ if said.role != Role::Assistant => return Some(None),
        Item::Reasoning { .. } => AnswerPart::Reasoning,
        Item::FunctionCall { .. } => AnswerPart::Call(all[..at].iter().filter(|item| is_call(item)).count()),
        _ => AnswerPart::Text,
    };
    let rest = without(said, part);
    Some(rest.filter(|rest| items(message, rest).iter().any(|item| !matches!(item, Item::Reasoning { .. }))))
}

const fn is_call(item: &Item) -> bool {
    matches!(item, Item::FunctionCall { .. })
}

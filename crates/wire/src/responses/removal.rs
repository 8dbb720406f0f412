//! A message without one of its items.

use herma_model::{MessageId, Role, Utterance};

use super::item::Item;
use super::transcript::items;
use crate::chat::{AnswerPart, without};

/// What ids of items begin with.
const PREFIXES: [&str; 4] = ["msg_", "rs_", "fc_", "fco_"];

/// The message that an item is of, by the item's id. Whether there is such a message, and such an item, is not known here.
pub fn message_of_item(id: &str) -> Option<MessageId> {
    let rest = PREFIXES.iter().find_map(|prefix| id.strip_prefix(prefix))?;
    let (hex, number) = rest.split_once('_').unwrap_or((rest, "0"));
    if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    format!("{}{hex}", MessageId::PREFIX).parse().ok()
}

/// A message without one of its items, in the form it would have if it had come that way. Absent when it has no such item; there
/// is nothing inside when nothing is left of it. Reasoning alone is nothing.
pub fn without_item(said: &Utterance, message: MessageId, item_id: &str) -> Option<Option<Utterance>> {
    let all = items(message, said);
    let at = all.iter().position(|item| item.id() == item_id)?;
    let part = match &all[at] {
        _ if said.role != Role::Assistant => return Some(None),
        Item::Reasoning { .. } => AnswerPart::Reasoning,
        Item::FunctionCall { .. } => AnswerPart::Call(all[..at].iter().filter(|item| is_call(item)).count()),
        _ => AnswerPart::Words,
    };
    let rest = without(said, part);
    Some(rest.filter(|rest| items(message, rest).iter().any(|item| !matches!(item, Item::Reasoning { .. }))))
}

const fn is_call(item: &Item) -> bool {
    matches!(item, Item::FunctionCall { .. })
}

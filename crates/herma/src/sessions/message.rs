//! Finds the message that was typed: by its number in the full view, or by its id.

use anyhow::anyhow;
use herma_gateway::Sessions;
use herma_model::{Alias, MessageId, Seq};
use herma_store::{Entry, MessageRange, Order, Pin};

use crate::arguments::NamedMessage;
use crate::next_command;

/// The id of the message that `flag` names. An id is not looked up here: the verb itself refuses an unknown one.
pub(super) async fn named(
    sessions: &Sessions<'_>,
    alias: &Alias,
    typed: NamedMessage,
    flag: &str,
) -> anyhow::Result<MessageId> {
    let number = match typed {
        NamedMessage::Id(id) => return Ok(id),
        NamedMessage::Number(number) => number,
    };
    let after = Some(Seq(number.0 - 1));
    let range = MessageRange { order: Order::OldestFirst { after }, limit: 1, pin: Pin::Head };
    let page = sessions.messages(alias, range).await?;
    let show = next_command::of(&["sessions", "show", alias.as_str()]);
    match page.entries.first() {
        Some(Entry::Said(message)) if message.seq == number => Ok(message.id),
        Some(Entry::Summary(summary)) if summary.seq == number => {
            Err(anyhow!("{flag} {} is a summary, not a message; to see the numbers: {show}", number.0))
        }
        _ => Err(anyhow!("{alias} has no message {}; to see the numbers: {show}", number.0)),
    }
}

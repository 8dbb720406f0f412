//! What was asked in earlier chats, for the arrow keys and Ctrl-R.
//!
//! The texts are the stored messages. So they are nowhere twice, and what is deleted is gone here too.

use herma_gateway::{GatewayError, Sessions};
use herma_model::{Alias, Role, Timestamp};
use herma_store::{Entry, ListFilter, MessageRange, Order, Pin};
use herma_wire::chat::shown_text;

use crate::ORIGIN;

/// The most conversations that are read.
const CONVERSATIONS: usize = 20;
/// The most messages that are read of one conversation.
const MESSAGES: usize = 100;

/// The texts of the chats that were used last, oldest first.
pub(super) async fn texts(sessions: &Sessions<'_>) -> Result<Vec<String>, GatewayError> {
    let source = Some(ORIGIN.source.to_owned());
    let page = sessions.list(ListFilter { source, limit: CONVERSATIONS, ..ListFilter::default() }).await?;
    let mut asked: Vec<(Timestamp, String)> = Vec::new();
    for row in page.rows {
        let Ok(alias) = Alias::parse(&row.facts.id.to_string()) else { continue };
        let range = MessageRange { order: Order::NewestFirst { before: None }, limit: MESSAGES, pin: Pin::Head };
        let page = match sessions.messages(&alias, range).await {
            // It was deleted since the list was made.
            Err(GatewayError::NotFound(_)) => continue,
            page => page?,
        };
        asked.extend(page.entries.iter().filter_map(|entry| match entry {
            Entry::Said(message) if message.said.role == Role::User => {
                Some((message.created_at, shown_text(&message.said)?))
            }
            Entry::Said(_) | Entry::Summary(_) => None,
        }));
    }
    asked.sort_by_key(|(at, _)| *at);
    Ok(asked.into_iter().map(|(_, text)| text).collect())
}

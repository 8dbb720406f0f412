//! Tells Honcho what was said: the person's and the model's messages, as messages of two peers in one session.
//!
//! Honcho gives messages ids of its own and takes a repeated message twice. So each message carries its origin, and a
//! delivery that may be a repetition first asks what is there.

use std::collections::HashSet;

use herma_model::{ConversationId, MessageId, Role, TurnId};
use herma_store::{RecordedMessage, RecordedTurn};
use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{HonchoClient, HonchoError, Request};
use super::names::Names;
use crate::outbox::{Delivered, DeliveryProblem};

/// The most letters of one message. Honcho takes 25,000; a longer text becomes several messages.
const LONGEST_MESSAGE: usize = 20_000;
/// The most messages of one request.
const MOST_MESSAGES: usize = 100;

/// Messages at Honcho, of which only the origin counts.
#[derive(Debug, Deserialize)]
struct MessagePage {
    items: Vec<KnownMessage>,
}

#[derive(Debug, Deserialize)]
struct KnownMessage {
    metadata: KnownMetadata,
}

#[derive(Debug, Deserialize)]
struct KnownMetadata {
    herma: KnownOrigin,
}

#[derive(Debug, Deserialize, PartialEq, Eq, Hash)]
struct KnownOrigin {
    message: MessageId,
    part: usize,
}

/// Sends what was said in turns of a conversation.
pub(super) async fn record(
    client: &HonchoClient,
    names: &Names,
    conversation: ConversationId,
    turns: &[RecordedTurn],
    is_repeated: bool,
) -> Result<Delivered, DeliveryProblem> {
    let session = names.session(conversation);
    let mut messages = Vec::new();
    for turn in turns {
        let known = if is_repeated { known(client, names, &session, turn.turn).await? } else { HashSet::new() };
        for message in &turn.messages {
            let unknown = parts(&message.text).enumerate();
            let unknown =
                unknown.filter(|(part, _)| !known.contains(&KnownOrigin { message: message.id, part: *part }));
            messages.extend(unknown.map(|(part, text)| sent(names, conversation, turn.turn, message, part, text)));
        }
    }
    if messages.is_empty() {
        return Ok(Delivered::Done);
    }
    open(client, names, &session).await?;
    let path = ["workspaces", &names.workspace, "sessions", &session, "messages"];
    for batch in messages.chunks(MOST_MESSAGES) {
        client.tell(Request::post(&path, json!({ "messages": batch }))).await?;
    }
    Ok(Delivered::Done)
}

/// Makes the workspace and the session, if they are not there. Honcho is to learn about the person, not the model.
async fn open(client: &HonchoClient, names: &Names, session: &str) -> Result<(), HonchoError> {
    client.tell(Request::post(&["workspaces"], json!({ "id": names.workspace }))).await?;
    let peers = json!({
        &names.peer: { "observe_me": true, "observe_others": false },
        names.assistant: { "observe_me": false, "observe_others": false },
    });
    let path = ["workspaces", &names.workspace, "sessions"];
    client.tell(Request::post(&path, json!({ "id": session, "peers": peers }))).await
}

/// The parts of a turn's messages that an earlier attempt has sent.
async fn known(
    client: &HonchoClient,
    names: &Names,
    session: &str,
    turn: TurnId,
) -> Result<HashSet<KnownOrigin>, HonchoError> {
    let path = ["workspaces", &names.workspace, "sessions", session, "messages", "list"];
    let filters = json!({ "filters": { "metadata": { "herma": { "turn": turn } } } });
    let asked = client.ask::<MessagePage>(Request::post(&path, filters).with("size", "100")).await;
    match asked {
        Ok(page) => Ok(page.items.into_iter().map(|item| item.metadata.herma).collect()),
        Err(error) if error.is_not_found() => Ok(HashSet::new()),
        Err(error) => Err(error),
    }
}

fn sent(
    names: &Names,
    conversation: ConversationId,
    turn: TurnId,
    message: &RecordedMessage,
    part: usize,
    text: &str,
) -> Value {
    let peer = match message.role {
        Role::User => names.peer.as_str(),
        Role::Assistant | Role::Tool => names.assistant,
    };
    json!({
        "content": text,
        "peer_id": peer,
        "metadata": { "herma": {
            "conversation": conversation,
            "turn": turn,
            "message": message.id,
            "seq": message.seq.0,
            "part": part,
        } },
        "created_at": message.created_at,
    })
}

/// A text in parts that Honcho takes.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().nth(LONGEST_MESSAGE).map_or(rest.len(), |(at, _)| at);
        let (part, others) = rest.split_at(end);
        rest = others;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_sent_in_parts() {
        let text = "ü".repeat(LONGEST_MESSAGE * 2 + 1);
        let parts: Vec<_> = parts(&text).collect();
        assert_eq!(parts.iter().map(|part| part.chars().count()).collect::<Vec<_>>(), [20_000, 20_000, 1]);
        assert_eq!(parts.concat(), text);
    }
}

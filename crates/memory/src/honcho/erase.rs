//! Has Honcho forget a conversation, a session key or a tenant.
//!
//! Honcho accepts a deletion and carries it out later. So an erasure is done when nothing is found any more, not when
//! it was accepted. Every step can be repeated.

use herma_model::ConversationId;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::{CONFLICT, HonchoClient, HonchoError, Request};
use super::delete;
use super::names::Names;
use crate::outbox::{Delivered, DeliveryProblem};

/// How many rows are asked for at once, and how often in one attempt. An attempt must end before its lease does.
const PAGE: usize = 100;
const MOST_PAGES: usize = 4;

#[derive(Debug, Deserialize)]
struct Page<T> {
    items: Vec<T>,
}

#[derive(Debug, Deserialize)]
struct Session {
    id: String,
    /// False if its deletion was accepted.
    is_active: bool,
}

#[derive(Debug, Deserialize)]
struct Conclusion {
    id: String,
    session_id: Option<String>,
}

/// What Honcho sums up about a peer.
#[derive(Debug, Deserialize)]
struct Card {
    peer_card: Option<Vec<String>>,
}

/// A row of which only the number counts.
#[derive(Debug, Deserialize)]
struct Anything {}

/// Forgets a conversation: its session, and conclusions that may come from it. A session that conversations share can
/// only be deleted as a whole, because Honcho deletes no single messages.
pub(super) async fn conversation(
    client: &HonchoClient,
    names: &Names,
    conversation: ConversationId,
) -> Result<Delivered, DeliveryProblem> {
    if names.shared_session().is_some() {
        return Ok(Delivered::Held);
    }
    let session = names.session(conversation);
    delete(client, &["workspaces", &names.workspace, "sessions", &session]).await?;
    forget_conclusions(client, names, |of| of.is_none_or(|of| of == session)).await?;
    require_no_messages(client, names, &session).await?;
    Ok(Delivered::Done)
}

/// Forgets everything about a session key. Honcho cannot delete a peer: its name stays, without anything.
pub(super) async fn key(client: &HonchoClient, names: &Names) -> Result<Delivered, DeliveryProblem> {
    let path = ["workspaces", &names.workspace, "peers", &names.peer, "sessions"];
    let mut is_any_left = false;
    if let Some(session) = names.shared_session() {
        delete(client, &["workspaces", &names.workspace, "sessions", session]).await?;
        require_no_messages(client, names, session).await?;
    }
    for session in rows::<Session>(client, &path, &json!({})).await? {
        is_any_left = true;
        if session.is_active {
            delete(client, &["workspaces", &names.workspace, "sessions", &session.id]).await?;
        }
    }
    forget_conclusions(client, names, |_| true).await?;
    if is_any_left { Err(not_yet()) } else { Ok(Delivered::Done) }
}

/// Forgets a tenant with its workspace. Honcho wants its sessions to be deleted first. It is done when there are no
/// sessions and no peers: a workspace that is gone may still be answered from a cache.
pub(super) async fn tenant(client: &HonchoClient, workspace: &str) -> Result<Delivered, DeliveryProblem> {
    let sessions = rows::<Session>(client, &["workspaces", workspace, "sessions", "list"], &json!({})).await?;
    let peers = rows::<Anything>(client, &["workspaces", workspace, "peers", "list"], &json!({})).await?;
    if sessions.is_empty() && peers.is_empty() {
        return Ok(Delivered::Done);
    }
    for session in sessions {
        delete(client, &["workspaces", workspace, "sessions", &session.id]).await?;
    }
    match delete(client, &["workspaces", workspace]).await {
        Ok(()) | Err(HonchoError::Status { status: CONFLICT, .. }) => Err(not_yet()),
        Err(error) => Err(error.into()),
    }
}

fn not_yet() -> DeliveryProblem {
    DeliveryProblem::NotYet("Honcho has accepted a deletion, but has not carried it out yet".to_owned())
}

async fn require_no_messages(client: &HonchoClient, names: &Names, session: &str) -> Result<(), DeliveryProblem> {
    let path = ["workspaces", &names.workspace, "sessions", session, "messages", "list"];
    let asked = client.ask::<Page<Anything>>(Request::post(&path, json!({})).with("size", "1")).await;
    match asked {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(page) if page.items.is_empty() => Ok(()),
        Ok(_) => Err(not_yet()),
    }
}

/// Deletes conclusions about the peer, by the session they belong to, and the peer's card, which belongs to none.
async fn forget_conclusions(
    client: &HonchoClient,
    names: &Names,
    is_erased: impl Fn(Option<&str>) -> bool,
) -> Result<(), HonchoError> {
    let path = ["workspaces", &names.workspace, "conclusions", "list"];
    let filters = json!({ "filters": { "observed_id": names.peer } });
    for conclusion in rows::<Conclusion>(client, &path, &filters).await? {
        if is_erased(conclusion.session_id.as_deref()) {
            delete(client, &["workspaces", &names.workspace, "conclusions", &conclusion.id]).await?;
        }
    }
    // Honcho would make a peer whose card is set, so a card is emptied only if it has something.
    let path = ["workspaces", &names.workspace, "peers", &names.peer, "card"];
    let card = match client.ask::<Card>(Request::new(Method::GET, &path)).await {
        Err(error) if error.is_not_found() => return Ok(()),
        other => other?,
    };
    if card.peer_card.is_none_or(|lines| lines.is_empty()) {
        return Ok(());
    }
    client.tell(Request::post(&path, json!({ "peer_card": [] })).by(Method::PUT)).await
}

/// All rows of a list, as far as one attempt reads. Empty if there is no such thing.
async fn rows<T: serde::de::DeserializeOwned>(
    client: &HonchoClient,
    path: &[&str],
    body: &serde_json::Value,
) -> Result<Vec<T>, HonchoError> {
    let mut all = Vec::new();
    for page in 1..=MOST_PAGES {
        let request = Request::post(path, body.clone()).with("size", PAGE.to_string()).with("page", page.to_string());
        let found: Page<T> = match client.ask(request).await {
            Err(error) if error.is_not_found() => break,
            other => other?,
        };
        let is_last = found.items.len() < PAGE;
        all.extend(found.items);
        if is_last {
            break;
        }
    }
    Ok(all)
}

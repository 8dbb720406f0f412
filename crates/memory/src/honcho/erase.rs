//! Has Honcho forget a conversation, a session key or a tenant.
//!
//! Honcho accepts the deletion of a session or a workspace, and its worker carries it out later. An idle worker looks
//! for work every 45 seconds at the latest. So an erasure is done when nothing is found any more, not when it was accepted.
//! Every step can be repeated. A conclusion is deleted at once.

use herma_model::ConversationId;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use super::client::{CONFLICT, HonchoClient, HonchoError, Request};
use super::delete;
use super::names::Names;
use crate::outbox::{Delivered, DeliveryProblem};

/// How many rows are asked for at once: Honcho's largest page.
const PAGE: usize = 100;
/// How many rows are deleted in one attempt. An attempt must end before its lease does, and the next one goes on.
const MOST_DELETED: usize = 400;
/// How many pages are read in one attempt to find them.
const MOST_PAGES: usize = 200;

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
    let forgotten = forget_conclusions(client, names, |of| of.is_none_or(|of| of == session)).await?;
    require_no_messages(client, names, &session).await?;
    forgotten.into_delivered()
}

/// Forgets everything about a session key. Honcho cannot delete a peer: its name stays, without anything.
pub(super) async fn key(client: &HonchoClient, names: &Names) -> Result<Delivered, DeliveryProblem> {
    let path = ["workspaces", &names.workspace, "peers", &names.peer, "sessions"];
    if let Some(session) = names.shared_session() {
        delete(client, &["workspaces", &names.workspace, "sessions", session]).await?;
        require_no_messages(client, names, session).await?;
    }
    // Those whose deletion was accepted are listed until it is carried out.
    let sessions = rows(client, &path, &json!({}), |_: &Session| true).await?.found;
    for session in sessions.iter().filter(|session| session.is_active) {
        delete(client, &["workspaces", &names.workspace, "sessions", &session.id]).await?;
    }
    let forgotten = forget_conclusions(client, names, |_| true).await?;
    if sessions.is_empty() { forgotten.into_delivered() } else { Err(not_yet()) }
}

/// Forgets a tenant with its workspace. Honcho wants its sessions to be deleted first. It is done when there are no
/// sessions and no peers: a workspace that is gone may still be answered from a cache.
pub(super) async fn tenant(client: &HonchoClient, workspace: &str) -> Result<Delivered, DeliveryProblem> {
    let path = ["workspaces", workspace, "sessions", "list"];
    let sessions = rows(client, &path, &json!({}), |_: &Session| true).await?.found;
    let path = ["workspaces", workspace, "peers", "list"];
    let peer = client.ask::<Page<Anything>>(Request::post(&path, json!({})).with("size", "1")).await;
    let has_peers = match peer {
        Err(error) if error.is_not_found() => false,
        page => !page?.items.is_empty(),
    };
    if sessions.is_empty() && !has_peers {
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
    DeliveryProblem::NotYet("Honcho has accepted a deletion, but its worker has not carried it out yet".to_owned())
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

/// Whether all conclusions that are to be forgotten were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgotten {
    All,
    Some,
}

impl Forgotten {
    fn into_delivered(self) -> Result<Delivered, DeliveryProblem> {
        match self {
            Self::All => Ok(Delivered::Done),
            Self::Some => Err(DeliveryProblem::NotYet("Honcho has more conclusions to forget".to_owned())),
        }
    }
}

/// Deletes conclusions about the peer, by the session they belong to, and the peer's card, which belongs to none.
async fn forget_conclusions(
    client: &HonchoClient,
    names: &Names,
    is_erased: impl Fn(Option<&str>) -> bool,
) -> Result<Forgotten, HonchoError> {
    let path = ["workspaces", &names.workspace, "conclusions", "list"];
    let filters = json!({ "filters": { "observed_id": names.peer } });
    let is_erased = |conclusion: &Conclusion| is_erased(conclusion.session_id.as_deref());
    let Rows { found, is_all } = rows(client, &path, &filters, is_erased).await?;
    for conclusion in &found {
        delete(client, &["workspaces", &names.workspace, "conclusions", &conclusion.id]).await?;
    }
    empty_card(client, names).await?;
    Ok(if is_all { Forgotten::All } else { Forgotten::Some })
}

async fn empty_card(client: &HonchoClient, names: &Names) -> Result<(), HonchoError> {
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

/// Rows of a list.
struct Rows<T> {
    found: Vec<T>,
    /// False if there may be more.
    is_all: bool,
}

/// The rows of a list that are wanted, as many as one attempt may delete. Empty if there is no such list.
async fn rows<T: serde::de::DeserializeOwned>(
    client: &HonchoClient,
    path: &[&str],
    body: &serde_json::Value,
    is_wanted: impl Fn(&T) -> bool,
) -> Result<Rows<T>, HonchoError> {
    let mut found = Vec::new();
    for page in 1..=MOST_PAGES {
        let request = Request::post(path, body.clone()).with("size", PAGE.to_string()).with("page", page.to_string());
        let Page { items } = match client.ask::<Page<T>>(request).await {
            Err(error) if error.is_not_found() => return Ok(Rows { found, is_all: true }),
            page => page?,
        };
        let is_last = items.len() < PAGE;
        found.extend(items.into_iter().filter(&is_wanted));
        if is_last || found.len() >= MOST_DELETED {
            return Ok(Rows { found, is_all: is_last });
        }
    }
    Ok(Rows { found, is_all: false })
}

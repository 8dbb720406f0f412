//! What the Honcho server has, and how its routes answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{HonchoConclusion, HonchoMessage, HonchoRequest, Mood};

/// Everything that the server has.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) mood: Mood,
    pub(super) deletes_later: bool,
    pub(super) requests: Vec<HonchoRequest>,
    pub(super) messages: Vec<HonchoMessage>,
    pub(super) conclusions: Vec<(String, String)>,
    pub(super) noted: Vec<HonchoConclusion>,
    workspaces: BTreeSet<String>,
    /// Those whose deletion was accepted.
    doomed: BTreeSet<String>,
    /// By workspace and peer.
    cards: BTreeMap<(String, String), Value>,
    /// By workspace. Only the deletion of a workspace removes peers.
    peers: BTreeSet<(String, String)>,
    /// By workspace and name: the peers, and whether the session is active.
    sessions: BTreeMap<(String, String), (BTreeSet<String>, bool)>,
}

type Answer = (u16, Value);

fn not_found() -> Answer {
    (404, json!({ "detail": "not found" }))
}

/// The page of a list that a request asks for.
fn page(request: &HonchoRequest, items: impl IntoIterator<Item = Value>) -> Answer {
    let parameter = |name: &str, otherwise: usize| {
        let mut pairs = request.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(of, _)| *of == name).map_or(Some(otherwise), |(_, value)| value.parse().ok())
    };
    let (Some(number @ 1..), Some(size @ 1..=100)) = (parameter("page", 1), parameter("size", 50)) else {
        return (422, json!({ "detail": "not acceptable" }));
    };
    let items: Vec<Value> = items.into_iter().collect();
    let (total, pages) = (items.len(), items.len().div_ceil(size));
    let items: Vec<Value> = items.into_iter().skip((number - 1) * size).take(size).collect();
    (200, json!({ "items": items, "total": total, "page": number, "size": size, "pages": pages }))
}

impl Contents {
    pub(super) fn answer(&mut self, request: &HonchoRequest) -> Answer {
        let Some(path) = request.path.strip_prefix("/v3/workspaces") else { return not_found() };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let body = &request.body;
        match (request.method.as_str(), parts.as_slice()) {
            ("POST", []) => {
                self.workspaces.insert(text(body, "id"));
                (201, json!({ "id": body["id"] }))
            }
            ("DELETE", [workspace]) => self.delete_workspace(workspace),
            ("POST", [workspace, "sessions"]) => self.make_session(workspace, body),
            ("POST", [workspace, "sessions", "list"]) => page(request, self.sessions_of(workspace, None)),
            ("DELETE", [workspace, "sessions", session]) => self.delete_session(workspace, session),
            ("POST", [workspace, "sessions", session, "messages"]) => self.add_messages(workspace, session, body),
            ("POST", [workspace, "sessions", session, "messages", "list"]) => {
                let turn = &body["filters"]["metadata"]["herma"]["turn"];
                let is_wanted = |message: &&HonchoMessage| {
                    message.workspace == *workspace
                        && message.session == *session
                        && (turn.is_null() || message.metadata["herma"]["turn"] == *turn)
                };
                page(request, self.messages.iter().filter(is_wanted).map(row))
            }
            ("POST", [workspace, "sessions", session, "search"]) => {
                self.search(body, |message| message.workspace == *workspace && message.session == *session)
            }
            ("POST", [workspace, "peers", peer, "search"]) => {
                self.search(body, |message| message.workspace == *workspace && message.peer == *peer)
            }
            ("POST", [workspace, "peers", peer, "sessions"]) => page(request, self.sessions_of(workspace, Some(*peer))),
            ("GET", [workspace, "peers", peer, "context"]) => self.context(workspace, peer),
            ("PUT", [workspace, "peers", peer, "card"]) => {
                self.peers.insert(((*workspace).to_owned(), (*peer).to_owned()));
                self.cards.insert(((*workspace).to_owned(), (*peer).to_owned()), body["peer_card"].clone());
                (200, body.clone())
            }
            ("GET", [workspace, "peers", peer, "card"]) if self.peers_of(workspace).any(|known| known == *peer) => {
                let card = self.cards.get(&((*workspace).to_owned(), (*peer).to_owned())).cloned();
                (200, json!({ "peer_card": card.unwrap_or_else(|| json!(["Name: Ann"])) }))
            }
            ("POST", [workspace, "peers", "list"]) => {
                page(request, self.peers_of(workspace).map(|peer| json!({ "id": peer })))
            }
            ("POST", [workspace, "conclusions", "list"]) => {
                let observed = &body["filters"]["observed_id"];
                let own = self.noted.iter().rev().filter(|noted| noted.workspace == *workspace);
                let own = own.filter(|noted| observed.is_null() || *observed == json!(noted.observed));
                page(request, own.map(|noted| json!({ "id": noted.id, "session_id": noted.session })))
            }
            ("DELETE", [workspace, "conclusions", id]) => {
                let before = self.noted.len();
                self.noted.retain(|noted| noted.workspace != *workspace || noted.id != *id);
                if self.noted.len() < before { (204, Value::Null) } else { not_found() }
            }
            _ => not_found(),
        }
    }

    /// What the worker of the real server does.
    pub(super) fn carry_out_deletions(&mut self) {
        let gone: Vec<_> =
            self.sessions.iter().filter(|(_, (_, active))| !active).map(|(key, _)| key.clone()).collect();
        for (workspace, session) in gone {
            self.messages.retain(|message| message.workspace != workspace || message.session != session);
            self.noted.retain(|noted| noted.workspace != workspace || noted.session.as_ref() != Some(&session));
            self.sessions.remove(&(workspace, session));
        }
        for workspace in std::mem::take(&mut self.doomed) {
            self.workspaces.remove(&workspace);
            self.peers.retain(|(of, _)| *of != workspace);
            self.cards.retain(|(of, _), _| *of != workspace);
            self.noted.retain(|noted| noted.workspace != workspace);
        }
    }

    fn make_session(&mut self, workspace: &str, body: &Value) -> Answer {
        let key = (workspace.to_owned(), text(body, "id"));
        let (peers, active) = self.sessions.entry(key).or_insert_with(|| (BTreeSet::new(), true));
        if !*active {
            return not_found();
        }
        let named: Vec<String> =
            body["peers"].as_object().into_iter().flat_map(|peers| peers.keys().cloned()).collect();
        peers.extend(named.iter().cloned());
        self.peers.extend(named.into_iter().map(|peer| (workspace.to_owned(), peer)));
        self.workspaces.insert(workspace.to_owned());
        (201, json!({ "id": body["id"], "is_active": true }))
    }

    fn peers_of<'a>(&'a self, workspace: &str) -> impl Iterator<Item = &'a str> {
        let workspace = workspace.to_owned();
        self.peers.iter().filter(move |(of, _)| *of == workspace).map(|(_, peer)| peer.as_str())
    }

    fn sessions_of(&self, workspace: &str, peer: Option<&str>) -> Vec<Value> {
        let is_wanted = |key: &(String, String), peers: &BTreeSet<String>, active: bool| {
            key.0 == workspace && peer.map_or(active, |peer| peers.contains(peer))
        };
        let all = self.sessions.iter().filter(|(key, (peers, active))| is_wanted(key, peers, *active));
        all.map(|((_, session), (_, active))| json!({ "id": session, "is_active": active })).collect()
    }

    fn delete_session(&mut self, workspace: &str, session: &str) -> Answer {
        match self.sessions.get_mut(&(workspace.to_owned(), session.to_owned())) {
            Some((_, active)) if *active => *active = false,
            _ => return not_found(),
        }
        (202, json!({ "message": "Session deleted successfully" }))
    }

    fn delete_workspace(&mut self, workspace: &str) -> Answer {
        if !self.workspaces.contains(workspace) {
            return not_found();
        }
        if !self.sessions_of(workspace, None).is_empty() {
            return (409, json!({ "detail": "active sessions" }));
        }
        self.doomed.insert(workspace.to_owned());
        (202, json!({ "message": "Workspace deletion accepted" }))
    }

    fn add_messages(&mut self, workspace: &str, session: &str, body: &Value) -> Answer {
        match self.sessions.get(&(workspace.to_owned(), session.to_owned())) {
            Some((_, true)) => {}
            _ => return not_found(),
        }
        let added: Vec<HonchoMessage> = body["messages"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|message| HonchoMessage {
                workspace: workspace.to_owned(),
                session: session.to_owned(),
                peer: text(message, "peer_id"),
                content: text(message, "content"),
                metadata: message["metadata"].clone(),
                created_at: text(message, "created_at"),
            })
            .collect();
        if added.is_empty() || added.len() > 100 || added.iter().any(|one| one.content.chars().count() > 25_000) {
            return (422, json!({ "detail": "not acceptable" }));
        }
        let rows = added.iter().map(row).collect();
        self.messages.extend(added);
        (201, Value::Array(rows))
    }

    /// Messages that share a long word with the query, newest first.
    fn search(&self, body: &Value, is_within: impl Fn(&HonchoMessage) -> bool) -> Answer {
        let query = text(body, "query").to_lowercase();
        let words: Vec<&str> = query.split_whitespace().filter(|word| word.len() > 2).collect();
        let has_word = |message: &HonchoMessage| {
            let content = message.content.to_lowercase();
            words.iter().any(|word| content.contains(word))
        };
        let is_found =
            |message: &&HonchoMessage| has_word(message) && (self.mood == Mood::Indiscreet || is_within(message));
        (200, Value::Array(self.messages.iter().rev().filter(is_found).take(12).map(row).collect()))
    }

    fn context(&self, workspace: &str, peer: &str) -> Answer {
        let own: Vec<&HonchoMessage> =
            self.messages.iter().filter(|one| one.workspace == workspace && one.peer == peer).collect();
        if own.is_empty() {
            return not_found();
        }
        let mut lines = vec!["## Explicit Observations".to_owned(), String::new()];
        for (word, conclusion) in &self.conclusions {
            if own.iter().any(|message| message.content.contains(word.as_str())) {
                lines.push(format!("[2026-11-18 10:00:00] {conclusion}"));
            }
        }
        let representation = lines.join("\n");
        (200, json!({ "peer_id": peer, "target_id": peer, "representation": representation, "peer_card": null }))
    }
}

fn row(message: &HonchoMessage) -> Value {
    json!({
        "id": "not-ours",
        "content": message.content,
        "peer_id": message.peer,
        "session_id": message.session,
        "metadata": message.metadata,
        "created_at": message.created_at,
        "workspace_id": message.workspace,
        "token_count": 1,
    })
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

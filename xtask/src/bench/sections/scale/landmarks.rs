//! Conversations that exist once in the large store: one with a thousand splits, one with one split, and a large
//! family.

use std::io;

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bench::child::Child;
use crate::bench::load;
use crate::bench::sections::talk::{Client, Split};

/// Splits of the deep conversation.
pub(super) const DEPTH: usize = 1000;
/// Nodes of the family: the first conversation, its children and its grandchildren.
pub(super) const NODES: usize = 10_000;
const CHILDREN: usize = 999;
const CLIENTS: usize = 16;

/// The names of these conversations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Landmarks {
    /// The first session's id and the stable handle of the conversation with one split.
    pub(super) shallow: (String, String),
    /// The same for the conversation with a thousand splits.
    pub(super) deep: (String, String),
    /// The first conversation of the family.
    pub(super) eldest: String,
}

impl Landmarks {
    pub(super) async fn make(herma: &Child) -> io::Result<Self> {
        let deep = Split::make(herma, DEPTH).await?;
        let shallow = Split::make(herma, 1).await?;
        Ok(Self {
            shallow: (shallow.first, shallow.stable),
            deep: (deep.first, deep.stable),
            eldest: family(herma).await?,
        })
    }
}

async fn family(herma: &Child) -> io::Result<String> {
    let eldest = load::session_name();
    let own = json!({ "id": eldest, "title": "The first of a family" });
    Client::connect(herma).await?.send(&load::send("POST", "/api/sessions", &own)).await?;
    let child = |number: usize| format!("{eldest}-{number}");
    let parent = |number: usize| if number < CHILDREN { eldest.clone() } else { child((number - CHILDREN) / 10) };
    // A parent must exist before its children are created.
    for range in [0..CHILDREN, CHILDREN..NODES - 1] {
        let clients = (0..CLIENTS).map(async |client| {
            let mut connection = Client::connect(herma).await?;
            for number in range.clone().filter(|number| number % CLIENTS == client) {
                let body = json!({ "id": child(number), "kind": "auxiliary", "parent": parent(number) });
                connection.send(&load::send("POST", "/api/sessions", &body)).await?;
            }
            io::Result::Ok(())
        });
        try_join_all(clients).await?;
    }
    Ok(eldest)
}

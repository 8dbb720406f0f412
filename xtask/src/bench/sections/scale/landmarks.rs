//! What is there once: a conversation of a thousand splits beside one of one, and a large family.

use std::io;

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::bench::child::Child;
use crate::bench::load;
use crate::bench::sections::talk::{Client, Split};

/// Splits of the deep conversation.
pub(super) const DEPTH: usize = 1000;
/// Nodes of the family: the first, its children, and the children of those.
pub(super) const NODES: usize = 10_000;
const CHILDREN: usize = 999;
const CLIENTS: usize = 16;

/// Where they are found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Landmarks {
    /// The first session and the stable handle of a conversation of one split.
    pub(super) shallow: (String, String),
    /// The same of a thousand.
    pub(super) deep: (String, String),
    /// The first of a family.
    pub(super) eldest: String,
}

impl Landmarks {
    /// Makes them.
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
    // Children first: whoever is to be a parent has to be there.
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

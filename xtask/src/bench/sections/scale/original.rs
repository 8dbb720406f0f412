//! The conversations that are copied: a hundred of all kinds, which Herma itself creates over HTTP.
//!
//! They take their turns in rounds, so that rows of different conversations alternate in the file, as in real use.

use std::io;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::copies::{RARE_SOURCE, SHARED_KEY};
use crate::bench::child::Child;
use crate::bench::load;
use crate::bench::sections::talk::{Client, long_turn, turn};

/// The number of conversations in the original, and of messages in them.
pub(super) const CONVERSATIONS: usize = 100;
pub(super) const MESSAGES: usize = 10 * CONVERSATIONS;

/// The conversations of each kind, by number. Those before are main conversations.
const AUXILIARY: std::ops::Range<usize> = 60..75;
const BACKGROUND: std::ops::Range<usize> = 75..85;
const BRANCHES: std::ops::Range<usize> = 85..CONVERSATIONS;

/// Turns of a conversation, by the last digit of its number: five on average.
const TURNS: [usize; 10] = [2, 4, 2, 7, 2, 4, 16, 2, 4, 7];

/// The conversation with the shared session key, and the one with the rare source.
const SHARED: usize = 3;
const RARE: usize = 10;

/// The name of a conversation whose id the client chooses.
pub(super) fn name(number: usize) -> String {
    format!("channel-{number}")
}

/// Creates all conversations of the original.
pub(super) async fn make(herma: &Child) -> io::Result<()> {
    let mut client = Client::connect(herma).await?;
    let mut ids: Vec<String> = Vec::new();
    for number in 0..BRANCHES.start {
        let made = client.answer(&load::send("POST", "/api/sessions", &declared(number, &ids))).await?;
        ids.push(id(&made)?);
    }
    for round in 0..=TURNS.into_iter().max().unwrap_or_default() {
        if round == 1 {
            for number in BRANCHES {
                let path = format!("/api/sessions/{}/branch", ids[number - BRANCHES.start]);
                let made = client.answer(&load::send("POST", &path, &named(number))).await?;
                ids.push(id(&made)?);
            }
        }
        for (number, id) in ids.iter().enumerate() {
            // A branch starts one round later, when its source has messages to inherit.
            let taken = if BRANCHES.contains(&number) { round.wrapping_sub(1) } else { round };
            if taken < TURNS[number % 10] {
                let splits = splits(number);
                client.send(&if splits.is_empty() { turn(id) } else { long_turn(id) }).await?;
                if splits.contains(&taken) {
                    client.send(&load::compact(id)).await?;
                }
            }
        }
    }
    for (_, id) in ids.iter().enumerate().filter(|(number, _)| number % 7 == 6) {
        client.send(&load::send("PATCH", &format!("/api/sessions/{id}"), &json!({ "archived": true }))).await?;
    }
    Ok(())
}

/// The turns after which a conversation is split. Only the longest conversations are split.
fn splits(number: usize) -> &'static [usize] {
    match number % 20 {
        6 => &[5, 10],
        16 => &[8],
        _ => &[],
    }
}

/// The request body that creates a conversation.
fn declared(number: usize, ids: &[String]) -> Value {
    let mut body = named(number);
    if AUXILIARY.contains(&number) {
        body["kind"] = json!("auxiliary");
        body["parent"] = json!(ids[number - AUXILIARY.start]);
    }
    if BACKGROUND.contains(&number) {
        body["kind"] = json!("background");
        if number.is_multiple_of(2) {
            body["parent"] = json!(ids[number - BACKGROUND.start]);
        }
    }
    if number == SHARED {
        body["session_key"] = json!(SHARED_KEY);
    } else if number % 4 == 1 {
        body["session_key"] = json!(format!("agent:main:webui:dm:user-{}", number / 8));
    }
    body
}

/// Half of the conversations have an id chosen by the client, and most have a title.
fn named(number: usize) -> Value {
    let mut body = json!({});
    if number.is_multiple_of(2) {
        body["id"] = json!(name(number));
    }
    if !number.is_multiple_of(5) {
        body["title"] = json!("To be named");
    }
    body
}

fn id(made: &Value) -> io::Result<String> {
    made["id"].as_str().map(str::to_owned).ok_or_else(|| io::Error::other(format!("no session: {made}")))
}

/// Sets the source of some conversations to one that is not HTTP. No other process may have the file open.
pub(super) fn set_sources(path: &Path) -> io::Result<()> {
    let give = |database: Connection| {
        database.execute("UPDATE conversations SET source = 'cli' WHERE pk % 10 = 5", [])?;
        database.execute("UPDATE conversations SET source = ?2 WHERE pk = ?1", (RARE as i64 + 1, RARE_SOURCE))
    };
    Connection::open(path).and_then(give).map(drop).map_err(io::Error::other)
}

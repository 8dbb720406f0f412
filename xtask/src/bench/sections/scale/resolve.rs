//! The cost of resolving a name after a thousand splits, and a check that copies behave like originals.

use std::io;

use serde_json::{Value, json};

use super::landmarks::{DEPTH, Landmarks};
use super::large_store::LargeStore;
use super::original;
use crate::bench::load;
use crate::bench::options::Options;
use crate::bench::sections::talk::{Block, Client, turn};
use crate::bench::statistics::{median, median_ratio};
use crate::bench::table::{Table, at_most};

/// The goal for a request in the deep conversation, as a multiple of one in the shallow conversation.
const GOAL: f64 = 1.1;
/// Requests of a block.
const COUNT: usize = 40;

/// Measures both conversations beside each other, by the ids of their first sessions. Two names alternate, so that
/// Herma reads the conversation from the store for every turn.
pub(super) async fn run(large_store: &LargeStore, client: &mut Client<'_>, options: &Options) -> io::Result<()> {
    let Landmarks { shallow, deep, .. } = &large_store.description.landmarks;
    let mut measured: [[Vec<Block>; 2]; 2] = Default::default();
    for number in 0..=options.rounds() {
        let mut order = [(0, shallow), (1, deep)];
        if number % 2 == 1 {
            order.reverse();
        }
        for (depth, (first, stable)) in order {
            let shown = client.block(&[load::show(first)], COUNT).await?;
            let talked = client.block(&[turn(first), turn(stable)], COUNT / 4).await?;
            // The first round is a warm-up.
            if number > 0 {
                measured[depth][0].push(shown);
                measured[depth][1].push(talked);
            }
        }
    }
    println!("By the id of the first session, medians of {} rounds, latency p50:\n", options.rounds());
    let mut table = Table::new(["what", "1 split", &format!("{DEPTH} splits"), "CPU"]);
    for (at, what) in ["`GET /api/sessions/{id}`", "turn, from the store"].into_iter().enumerate() {
        let of =
            |depth: usize, number: fn(&Block) -> f64| -> Vec<f64> { measured[depth][at].iter().map(number).collect() };
        let ratio = |number| at_most(median_ratio(&of(1, number), &of(0, number)), GOAL, "");
        let shallow = format!("{:.2} ms", median(&of(0, Block::p50)));
        table.row([what.to_owned(), shallow, ratio(Block::p50), ratio(Block::cpu)]);
    }
    table.print();
    println!();
    Ok(())
}

/// Checks that some copies can be shown, read, continued and branched.
pub(super) async fn check(client: &mut Client<'_>, conversations: u64) -> io::Result<()> {
    let copy = conversations / original::CONVERSATIONS as u64 / 2;
    for number in [6, 16, 60, 76, 86] {
        let name = format!("{}-{copy}", original::name(number));
        let path = format!("/api/sessions/{name}");
        let row = client.answer(&load::get(&path)).await?;
        let said = client.answer(&load::get(&format!("{path}/messages?limit=200"))).await?;
        let said = said["data"].as_array().map_or(0, Vec::len);
        let lineage = client.answer(&load::get(&format!("{path}/lineage"))).await?;
        let branch = client.answer(&load::send("POST", &format!("{path}/branch"), &json!({}))).await?;
        let talked = client.answer(&turn(&name)).await?;
        let after = client.answer(&load::get(&path)).await?;
        let messages = |row: &Value| row["message_count"].as_u64().unwrap_or_default();
        let holds = said > 0
            && lineage["nodes"].as_array().is_some_and(|nodes| !nodes.is_empty())
            && branch["parent_session_id"] == row["id"]
            && talked["session"]["conversation_id"] == row["conversation_id"]
            && messages(&after) == messages(&row) + 2;
        if !holds {
            return Err(io::Error::other(format!("{name} is not what Herma would have written: {row}")));
        }
    }
    Ok(())
}

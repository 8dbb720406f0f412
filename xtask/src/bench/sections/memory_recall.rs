//! What a recall costs: turns under a session key that has many facts, compared with turns without memory.
//!
//! All kinds of turns alternate on one process, so the index is written for all of them:
//!
//! - `without`: no session key, so there is no memory;
//! - `off`: under the key, with memory switched off for the turn;
//! - `repeated`: under the key, always the same question. Every fact and every earlier message has words of it, so each
//!   look-up finds as many rows as it may.
//! - `varied`: under the key, and each turn asks another question. Each of its words is in more facts than a look-up
//!   finds. Nothing that a question needs is known from the question before it.

use std::io;
use std::sync::Arc;

use futures_util::future::try_join_all;
use herma_model::{MemoryId, MemorySource, SessionKey, Timestamp};
use herma_store::{NewMemory, Store};
use herma_store_sqlite::SqliteStore;

use super::turns::CLIENTS;
use super::{Lane, Rounds};
use crate::bench::load::questions::{VOCABULARY, word};
use crate::bench::load::{Api, MEMORY_KEY, Plan, Round, Shape};
use crate::bench::options::Options;
use crate::bench::statistics::{median, median_ratio, percentile};
use crate::bench::table::{Table, at_least};
use crate::bench::testbed::{Server, Testbed};

const WITHOUT: &str = "without";
const OFF: &str = "off";
const REPEATED: &str = "repeated";
const VARIED: &str = "varied";
/// Turns under the key, in the order of the report.
const UNDER_KEY: [&str; 3] = [OFF, REPEATED, VARIED];

/// The rate of turns with a recall, as a part of the rate of turns without.
const GOAL: f64 = 0.8;
/// Facts that are written at the same time.
const AT_ONCE: usize = 1000;

/// Measures only Herma: its own turns are compared.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    if !options.has_herma() {
        println!("Nothing to compare without Herma.");
        return Ok(());
    }
    let testbed = Testbed::start(&[])?;
    let data = testbed.directory("recall");
    std::fs::create_dir_all(&data)?;
    fill(&data.join("herma.db"), options.memories()).await?;
    let herma = Server::herma(testbed.launch_herma_on(&data, &[])?);
    println!("Turns per second with {} facts under the key; CPU and latency p50 as multiples:\n", options.memories());
    let mut header = ["clients", WITHOUT].map(str::to_owned).to_vec();
    for what in ["", ", CPU", ", latency"] {
        header.extend(UNDER_KEY.map(|name| format!("{name} / {WITHOUT}{what}")));
    }
    let mut table = Table::new(header);
    for clients in CLIENTS {
        let plan = |api| Plan { clients, turns: options.turns(clients), history: 2, shape: Shape::Whole, api };
        let lanes = [(WITHOUT, Api::Chat), (OFF, Api::RecallOff), (REPEATED, Api::Recall), (VARIED, Api::RecallVaried)];
        let lanes = lanes.map(|(name, api)| Lane { name, server: &herma, plan: plan(api) });
        let rounds = Rounds::measure(&testbed, &lanes, options.rounds()).await?;
        let rate = |round: &Round| round.rate;
        let ratio =
            |name, number: fn(&Round) -> f64| median_ratio(&rounds.of(name, number), &rounds.of(WITHOUT, number));
        let mut cells = vec![clients.to_string(), format!("{:.0}", median(&rounds.of(WITHOUT, rate)))];
        cells.push(format!("{:.2}", ratio(OFF, rate)));
        cells.extend([REPEATED, VARIED].map(|name| at_least(ratio(name, rate), GOAL)));
        for number in [|round: &Round| round.cpu, |round: &Round| percentile(&round.latencies, 50)] {
            cells.extend(UNDER_KEY.map(|name| format!("{:.2}", ratio(name, number))));
        }
        table.row(cells);
    }
    table.print();
    Ok(())
}

fn memory_id(number: usize) -> io::Result<MemoryId> {
    format!("mem_{number:032x}").parse().map_err(io::Error::other)
}

/// Writes the facts before the server starts.
async fn fill(database: &std::path::Path, facts: usize) -> io::Result<()> {
    let store = SqliteStore::open(database).map_err(io::Error::other)?;
    let now = Timestamp(1_790_000_000_000);
    let tenant = store.ensure_tenant("default", now).await.map_err(io::Error::other)?;
    let session_key = SessionKey::parse(MEMORY_KEY).map_err(io::Error::other)?;
    let numbers: Vec<usize> = (0..facts).collect();
    for part in numbers.chunks(AT_ONCE) {
        let ids = part.iter().map(|number| memory_id(*number)).collect::<io::Result<Vec<_>>>()?;
        let added = part.iter().zip(ids).map(|(number, id)| {
            store.add_memory(NewMemory {
                id,
                tenant,
                session_key: session_key.clone(),
                text: Arc::from(format!(
                    "Note {number}: the third paragraph leaves {} and {} open",
                    word(number % VOCABULARY),
                    word((number * 7 + 3) % VOCABULARY)
                )),
                source: MemorySource::Api,
                conversation: None,
                now,
            })
        });
        try_join_all(added).await.map_err(io::Error::other)?;
    }
    store.close().await;
    Ok(())
}

//! Turns on the large store beside turns on an empty one.

use std::io;

use super::WINDOW;
use super::large_store::LargeStore;
use crate::bench::load::{Api, Plan, Round, Shape};
use crate::bench::options::Options;
use crate::bench::sections::{Lane, Rounds};
use crate::bench::statistics::{median, median_ratio, percentile};
use crate::bench::table::{Table, at_least};
use crate::bench::testbed::{Server, Testbed};

/// The goal for the rate on the large store, as a part of the rate on an empty store.
const GOAL: f64 = 0.95;
const CLIENTS: [usize; 2] = [1, 8];
const LARGE: &str = "large";
const EMPTY: &str = "empty";

/// Measures both in alternating rounds.
pub(super) async fn run(testbed: &Testbed, large_store: &LargeStore, options: &Options) -> io::Result<()> {
    let large = Server::herma(testbed.launch_herma_on(&large_store.directory, &WINDOW)?);
    let empty = Server::herma(testbed.launch_herma("empty", &WINDOW)?);
    println!("Turns per second on the large store and on an empty one, medians of {} rounds:\n", options.rounds());
    let mut table = Table::new(["clients", "empty", "large / empty", "CPU", "latency p50"]);
    for clients in CLIENTS {
        let plan = Plan { clients, turns: options.turns(clients), history: 2, shape: Shape::Whole, api: Api::Chat };
        let lanes = [(LARGE, &large), (EMPTY, &empty)].map(|(name, server)| Lane { name, server, plan });
        let rounds = Rounds::measure(testbed, &lanes, options.rounds()).await?;
        let ratio = |number: fn(&Round) -> f64| median_ratio(&rounds.of(LARGE, number), &rounds.of(EMPTY, number));
        table.row([
            clients.to_string(),
            format!("{:.0}", median(&rounds.of(EMPTY, |round| round.rate))),
            at_least(ratio(|round| round.rate), GOAL),
            format!("{:.2}", ratio(|round| round.cpu)),
            format!("{:.2}", ratio(|round| percentile(&round.latencies, 50))),
        ]);
    }
    table.print();
    println!();
    Ok(())
}

//! Turns that differ from a usual chat turn, compared with the floor's: first turns, streams whose tokens come at once,
//! clients that share a conversation. And streamed turns, compared with whole ones.

use std::io;

use super::turns::CLIENTS;
use super::{Lane, Rounds};
use crate::bench::load::{Kind, Round};
use crate::bench::options::Options;
use crate::bench::statistics::{median, median_ratio, percentile};
use crate::bench::table::{Table, at_least, at_most};
use crate::bench::testbed::{Target, Testbed};

/// The goal for the ratio of Herma's rate to the floor's.
const GOAL: f64 = 0.6;
/// The goal for the p99 of clients that share a conversation, as a multiple of the floor's.
const SHARED_GOAL: f64 = 3.0;
/// Clients that share a conversation.
const SHARING: usize = 16;
/// Clients of the stream of tokens that come at once.
const BURST_CLIENTS: usize = 8;
/// The goal for the rate of streamed turns, as a part of the rate of whole turns, and the clients for which it holds.
const STREAMED_GOAL: f64 = 0.9;
const STREAMED_CLIENTS: usize = 64;

/// Measures Herma and the floor.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    let targets: Vec<Target> = options.targets().into_iter().filter(|target| target.keeps_history()).collect();
    let testbed = Testbed::start(&targets)?;
    against_floor(&testbed, options).await?;
    println!();
    streamed(&testbed, options).await
}

async fn against_floor(testbed: &Testbed, options: &Options) -> io::Result<()> {
    println!("Turns per second, CPU per turn in microseconds, latency in milliseconds, p50 / p99; floor and Herma:\n");
    let mut rows = vec![(Kind::BURST, BURST_CLIENTS)];
    rows.extend(CLIENTS.map(|clients| (Kind::FIRST, clients)));
    rows.push((Kind::SHARED, SHARING));
    let mut table = Table::new([
        "turn",
        "clients",
        "floor",
        "herma",
        "herma/floor",
        "CPU, floor",
        "CPU, herma",
        "latency, floor",
        "latency, herma",
        "p99, herma/floor",
    ]);
    for (kind, clients) in rows {
        let plan = kind.plan(clients, options.turns(clients));
        let rounds = Rounds::of_targets(testbed, &plan, options.rounds()).await?;
        let of = |target: Target, number: &dyn Fn(&Round) -> f64| rounds.of(target.name(), number);
        let ratio =
            |number: &dyn Fn(&Round) -> f64| median_ratio(&of(Target::Herma, number), &of(Target::Floor, number));
        let rate = |round: &Round| round.rate;
        let p99 = |round: &Round| percentile(&round.latencies, 99);
        let both = [Target::Floor, Target::Herma];
        let mut cells = vec![kind.name.to_owned(), clients.to_string()];
        cells.extend(both.map(|target| format!("{:.0}", median(&of(target, &rate)))));
        cells.push(at_least(ratio(&rate), GOAL));
        cells.extend(both.map(|target| format!("{:.0}", median(&of(target, &|round: &Round| round.cpu)))));
        cells.extend(both.map(|target| {
            let p50 = |round: &Round| percentile(&round.latencies, 50);
            format!("{:.2} / {:.2}", median(&of(target, &p50)), median(&of(target, &p99)))
        }));
        let is_shared = kind.name == Kind::SHARED.name;
        cells.push(if is_shared { at_most(ratio(&p99), SHARED_GOAL, "") } else { format!("{:.2}", ratio(&p99)) });
        table.row(cells);
    }
    table.print();
    Ok(())
}

async fn streamed(testbed: &Testbed, options: &Options) -> io::Result<()> {
    println!("Streamed turns of {STREAMED_CLIENTS} clients as a part of the rate of whole turns, CPU as a multiple:\n");
    let mut table = Table::new(["server", "whole, a second", "streamed, a second", "streamed / whole", "CPU"]);
    for server in testbed.servers() {
        let plan = |kind: Kind| kind.plan(STREAMED_CLIENTS, options.turns(STREAMED_CLIENTS));
        let lanes = [Kind::CHAT, Kind::STREAMED].map(|kind| Lane { name: kind.name, server, plan: plan(kind) });
        let rounds = Rounds::measure(testbed, &lanes, options.rounds()).await?;
        let of = |kind: Kind, number: fn(&Round) -> f64| rounds.of(kind.name, number);
        let ratio = |number| median_ratio(&of(Kind::STREAMED, number), &of(Kind::CHAT, number));
        let rate = ratio(|round| round.rate);
        let judged = match server.target() {
            Target::Herma => at_least(rate, STREAMED_GOAL),
            _ => format!("{rate:.2}"),
        };
        table.row([
            server.target().name().to_owned(),
            format!("{:.0}", median(&of(Kind::CHAT, |round| round.rate))),
            format!("{:.0}", median(&of(Kind::STREAMED, |round| round.rate))),
            judged,
            format!("{:.2}", ratio(|round| round.cpu)),
        ]);
    }
    table.print();
    Ok(())
}

//! Turns a second by each door, in rounds that take turns on one process.

use std::io;

use crate::bench::field::Field;
use crate::bench::load::{Door, Plan, Round, Shape};
use crate::bench::options::Options;
use crate::bench::sections::turns::{CLIENTS, HISTORIES};
use crate::bench::sections::{Lane, Rounds};
use crate::bench::statistics::{median, median_ratio, percentile};
use crate::bench::table::{Table, at_least};

/// What a turn by another door is to reach of a chat turn's rate.
const GOAL: f64 = 0.9;

/// Measures every number of clients with every length of history, then streams on short histories.
pub(super) async fn run(field: &Field, options: &Options) -> io::Result<()> {
    println!(
        "Turns per second of JSON turns, and as a part of a chat turn's rate; CPU and latency p50 as multiples:\n"
    );
    let scenarios = HISTORIES.into_iter().flat_map(|history| CLIENTS.map(|clients| (clients, history)));
    print(field, options, Shape::Whole, scenarios.collect()).await?;
    println!("\nThe same, streamed; a response's stream is stored so that it can be read again:\n");
    let scenarios = CLIENTS.map(|clients| (clients, HISTORIES[0])).to_vec();
    print(field, options, Shape::Streamed { pause: false }, scenarios).await
}

async fn print(field: &Field, options: &Options, shape: Shape, scenarios: Vec<(usize, usize)>) -> io::Result<()> {
    let mut header = ["clients", "history", "chat"].map(str::to_owned).to_vec();
    let others = || Door::ALL.into_iter().filter(|door| *door != Door::Chat);
    for what in ["", ", CPU", ", latency"] {
        header.extend(others().map(|door| format!("{} / chat{what}", door.name())));
    }
    let mut table = Table::new(header);
    for (clients, history) in scenarios {
        let lanes = field.servers().iter().flat_map(|server| {
            let plan = |door| Plan { clients, turns: options.turns(clients), history, shape, door };
            Door::ALL.map(|door| Lane { name: door.name(), server, plan: plan(door) })
        });
        let lanes: Vec<Lane<'_>> = lanes.collect();
        let rounds = Rounds::measure(field, &lanes, options.rounds()).await?;
        let of = |door: Door, number: fn(&Round) -> f64| rounds.of(door.name(), number);
        let ratio = |door, number| median_ratio(&of(door, number), &of(Door::Chat, number));
        let rate = |round: &Round| round.rate;
        let mut cells = vec![clients.to_string(), history.to_string(), format!("{:.0}", median(&of(Door::Chat, rate)))];
        cells.extend(others().map(|door| match shape {
            Shape::Whole => at_least(ratio(door, rate), GOAL),
            Shape::Streamed { .. } => format!("{:.2}", ratio(door, rate)),
        }));
        cells.extend(others().map(|door| format!("{:.2}", ratio(door, |round| round.cpu))));
        cells.extend(others().map(|door| format!("{:.2}", ratio(door, |round| percentile(&round.latencies, 50)))));
        table.row(cells);
    }
    table.print();
    Ok(())
}

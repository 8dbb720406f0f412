//! Turns per second of each API, in alternating rounds on one process.

use std::io;

use crate::bench::load::{Api, Pace, Plan, Round, Shape};
use crate::bench::options::Options;
use crate::bench::sections::turns::{CLIENTS, HISTORIES};
use crate::bench::sections::{Lane, Rounds};
use crate::bench::statistics::{median, median_ratio, percentile};
use crate::bench::table::{Table, at_least};
use crate::bench::testbed::Testbed;

/// The goal for the rate of response turns, as a part of the rate of chat turns.
const GOAL: f64 = 0.9;
/// Streamed ones have the goal with this many clients only.
const STREAMED_CLIENTS: usize = 64;

/// Measures every number of clients with every length of history, then streams on short histories.
pub(super) async fn run(testbed: &Testbed, options: &Options) -> io::Result<()> {
    println!(
        "Turns per second of JSON turns, and as a part of a chat turn's rate; CPU and latency p50 as multiples:\n"
    );
    let scenarios = HISTORIES.into_iter().flat_map(|history| CLIENTS.map(|clients| (clients, history)));
    print(testbed, options, Shape::Whole, scenarios.collect()).await?;
    println!("\nThe same, streamed; a response's stream is stored so that it can be read again:\n");
    let scenarios = CLIENTS.map(|clients| (clients, HISTORIES[0])).to_vec();
    print(testbed, options, Shape::Streamed(Pace::Usual), scenarios).await
}

async fn print(testbed: &Testbed, options: &Options, shape: Shape, scenarios: Vec<(usize, usize)>) -> io::Result<()> {
    let mut header = ["clients", "history", "chat"].map(str::to_owned).to_vec();
    let others = || Api::NAMED.into_iter().filter(|api| *api != Api::Chat);
    for what in ["", ", CPU", ", latency"] {
        header.extend(others().map(|api| format!("{} / chat{what}", api.name())));
    }
    let mut table = Table::new(header);
    for (clients, history) in scenarios {
        let lanes = testbed.servers().iter().flat_map(|server| {
            let plan = |api| Plan { clients, turns: options.turns(clients), history, shape, api };
            Api::NAMED.map(|api| Lane { name: api.name(), server, plan: plan(api) })
        });
        let lanes: Vec<Lane<'_>> = lanes.collect();
        let rounds = Rounds::measure(testbed, &lanes, options.rounds()).await?;
        let of = |api: Api, number: fn(&Round) -> f64| rounds.of(api.name(), number);
        let ratio = |api, number| median_ratio(&of(api, number), &of(Api::Chat, number));
        let rate = |round: &Round| round.rate;
        let mut cells = vec![clients.to_string(), history.to_string(), format!("{:.0}", median(&of(Api::Chat, rate)))];
        cells.extend(others().map(|api| match shape {
            Shape::Whole => at_least(ratio(api, rate), GOAL),
            Shape::Streamed(_) if clients == STREAMED_CLIENTS => at_least(ratio(api, rate), GOAL),
            Shape::Calling | Shape::Streamed(_) => format!("{:.2}", ratio(api, rate)),
        }));
        cells.extend(others().map(|api| format!("{:.2}", ratio(api, |round| round.cpu))));
        cells.extend(others().map(|api| format!("{:.2}", ratio(api, |round| percentile(&round.latencies, 50)))));
        table.row(cells);
    }
    table.print();
    Ok(())
}

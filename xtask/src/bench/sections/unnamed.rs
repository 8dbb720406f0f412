//! Turns of clients that name no session and send their whole history, compared with the same bodies with a session
//! header.

use std::io;
use std::time::Duration;

use futures_util::future::try_join_all;

use crate::bench::child::Child;
use crate::bench::load::{Api, Plan, Round, Shape, Talk};
use crate::bench::options::Options;
use crate::bench::sections::turns::{CLIENTS, HISTORIES};
use crate::bench::sections::{Lane, Rounds};
use crate::bench::statistics::{median, median_ratio, percentile};
use crate::bench::table::{Table, at_least, at_most};
use crate::bench::testbed::{Target, Testbed};

/// The bodies of both are the same.
const APIS: [Api; 2] = [Api::Whole, Api::Unnamed];

/// The goal for the rate of unnamed turns with a long history, as a part of the rate of turns with a header.
const RATE_GOAL: f64 = 0.8;
/// The goal for the CPU of an unnamed turn at any age, as a multiple of the same turn with a header.
const CPU_GOAL: f64 = 1.25;

/// The first measured turn of a thread.
const EARLY: usize = 10;
/// Turns that are measured together.
const BLOCK: usize = 20;

/// Measures only Herma: its own turns are compared.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    if !options.has_herma() {
        println!("Nothing to compare without Herma.");
        return Ok(());
    }
    let testbed = Testbed::start(&[Target::Herma])?;
    rates(&testbed, options).await?;
    println!();
    ages(&testbed, options).await
}

async fn rates(testbed: &Testbed, options: &Options) -> io::Result<()> {
    println!(
        "Turns per second, whole histories; unnamed turns as a part, or a multiple, of the same turns by header:\n"
    );
    let mut table = Table::new(["clients", "history", "by header", "unnamed", "rate", "CPU", "latency p50"]);
    for (clients, history) in HISTORIES.into_iter().flat_map(|history| CLIENTS.map(|clients| (clients, history))) {
        let lanes = testbed.servers().iter().flat_map(|server| {
            let plan = |api| Plan { clients, turns: options.turns(clients), history, shape: Shape::Whole, api };
            APIS.map(|api| Lane { name: api.name(), server, plan: plan(api) })
        });
        let rounds = Rounds::measure(testbed, &lanes.collect::<Vec<_>>(), options.rounds()).await?;
        let of = |api: Api, number: fn(&Round) -> f64| rounds.of(api.name(), number);
        let ratio = |number| median_ratio(&of(Api::Unnamed, number), &of(Api::Whole, number));
        let rate = ratio(|round| round.rate);
        let mut cells = vec![clients.to_string(), history.to_string()];
        cells.extend(APIS.map(|api| format!("{:.0}", median(&of(api, |round| round.rate)))));
        cells.push(if history < 100 { format!("{rate:.2}") } else { at_least(rate, RATE_GOAL) });
        cells.push(format!("{:.2}", ratio(|round| round.cpu)));
        cells.push(format!("{:.2}", ratio(|round| percentile(&round.latencies, 50))));
        table.row(cells);
    }
    table.print();
    Ok(())
}

/// Early and late turns of threads that grow together. A late body is many times as long as an early one, so only the
/// turns of the same age are compared.
async fn ages(testbed: &Testbed, options: &Options) -> io::Result<()> {
    let (turns, count) = (options.long_turns(), options.rounds());
    println!(
        "CPU of the server per turn in microseconds, one client, {count} pairs of threads with the same bodies:\n"
    );
    let mut table = Table::new(["turns", "by header", "unnamed", "unnamed / by header"]);
    let firsts = [EARLY, turns - BLOCK + 1];
    let mut measured = firsts.map(|_| APIS.map(|_| Vec::new()));
    for server in testbed.servers() {
        let herma = testbed.child(server);
        for number in 0..count {
            let begun = APIS.map(|api| Talk::begin(herma.address(), api, Shape::Whole));
            let mut talks = try_join_all(begun).await?;
            let mut taken = 1;
            for (first, samples) in firsts.into_iter().zip(&mut measured) {
                try_join_all(talks.iter_mut().map(|talk| talk.turns(first - 1 - taken))).await?;
                taken = first - 1 + BLOCK;
                let mut order = [0, 1];
                if number % 2 == 1 {
                    order.reverse();
                }
                for at in order {
                    samples[at].push(block(herma, &mut talks[at]).await?.as_secs_f64() * 1e6 / BLOCK as f64);
                }
            }
        }
    }
    for (first, [named, unnamed]) in firsts.into_iter().zip(&measured) {
        table.row([
            format!("{first} to {}", first + BLOCK - 1),
            format!("{:.0}", median(named)),
            format!("{:.0}", median(unnamed)),
            at_most(median_ratio(unnamed, named), CPU_GOAL, ""),
        ]);
    }
    table.print();
    Ok(())
}

/// The server's CPU time for the next turns of a thread.
async fn block(herma: &Child, talk: &mut Talk) -> io::Result<Duration> {
    let before = herma.cpu()?;
    talk.turns(BLOCK).await?;
    Ok(herma.cpu()?.since(&before))
}

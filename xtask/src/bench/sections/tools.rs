//! What a turn with one round of a built-in tool costs, compared with a turn without tools.
//!
//! Three kinds of turns alternate, on two processes:
//!
//! - `plain`: of a process that has no tools;
//! - `offered`: of a process that offers a tool, and the model does not call it;
//! - `round`: the model calls `session_read` once, then answers. Such a turn has two model calls and two appends.

use std::io;

use super::talk::Client;
use super::turns::CLIENTS;
use super::{Lane, Rounds};
use crate::bench::child::Child;
use crate::bench::load::{Api, Plan, Round, Shape, Talk, ask};
use crate::bench::options::Options;
use crate::bench::servers::upstream::READ;
use crate::bench::statistics::{median, median_ratio, percentile};
use crate::bench::table::Table;
use crate::bench::testbed::{Server, Testbed};

const PLAIN: &str = "plain";
const OFFERED: &str = "offered";
const ROUND: &str = "round";

/// Turns by which the rows and bytes of a kind of turn are counted.
const COUNTED: usize = 200;

/// Measures only Herma: its own turns are compared.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    if !options.has_herma() {
        println!("Nothing to compare without Herma.");
        return Ok(());
    }
    let testbed = Testbed::start(&[])?;
    rates(&testbed, options).await?;
    println!();
    stored(&testbed).await
}

async fn rates(testbed: &Testbed, options: &Options) -> io::Result<()> {
    println!("Turns per second, and as a part of a plain turn's rate; CPU and latency p50 as multiples:\n");
    let plain = Server::herma(testbed.launch_herma(PLAIN, &[])?);
    let offering = Server::herma(offering(testbed, OFFERED).await?);
    let others = [OFFERED, ROUND];
    let mut header = ["clients", PLAIN].map(str::to_owned).to_vec();
    for what in ["", ", CPU", ", latency"] {
        header.extend(others.map(|name| format!("{name} / {PLAIN}{what}")));
    }
    let mut table = Table::new(header);
    for clients in CLIENTS {
        let plan = |shape| Plan { clients, turns: options.turns(clients), history: 2, shape, api: Api::Chat };
        let lanes = [
            Lane { name: PLAIN, server: &plain, plan: plan(Shape::Whole) },
            Lane { name: OFFERED, server: &offering, plan: plan(Shape::Whole) },
            Lane { name: ROUND, server: &offering, plan: plan(Shape::Calling) },
        ];
        let rounds = Rounds::measure(testbed, &lanes, options.rounds()).await?;
        let rate = |round: &Round| round.rate;
        let ratio = |name, number: fn(&Round) -> f64| median_ratio(&rounds.of(name, number), &rounds.of(PLAIN, number));
        let mut cells = vec![clients.to_string(), format!("{:.0}", median(&rounds.of(PLAIN, rate)))];
        for number in [rate, |round: &Round| round.cpu, |round: &Round| percentile(&round.latencies, 50)] {
            cells.extend(others.map(|name| format!("{:.2}", ratio(name, number))));
        }
        table.row(cells);
    }
    table.print();
    Ok(())
}

async fn stored(testbed: &Testbed) -> io::Result<()> {
    println!("Rows of messages, and bytes that a turn adds to the database, one conversation of {COUNTED} turns:\n");
    let mut table = Table::new(["turn", "messages a turn", "bytes a turn"]);
    for (name, data, shape) in [(PLAIN, "rows", Shape::Whole), (ROUND, "rows-of-rounds", Shape::Calling)] {
        let herma = offering(testbed, data).await?;
        let mut talk = Talk::begin(herma.address(), Api::Chat, shape).await?;
        let before = (testbed.messages(data)? as f64, testbed.database_bytes(data)? as f64);
        talk.turns(COUNTED).await?;
        let after = (testbed.messages(data)? as f64, testbed.database_bytes(data)? as f64);
        let each = |before: f64, after: f64| (after - before) / COUNTED as f64;
        let (rows, bytes) = (each(before.0, after.0), each(before.1, after.1));
        table.row([name.to_owned(), format!("{rows:.1}"), format!("{bytes:.0}")]);
    }
    table.print();
    Ok(())
}

/// Starts Herma with the tool that the upstream calls, and makes the conversation that the tool reads.
async fn offering(testbed: &Testbed, data: &str) -> io::Result<Child> {
    let directory = testbed.directory(data);
    std::fs::create_dir_all(&directory)?;
    let config = directory.join("herma.toml");
    std::fs::write(&config, "[tools]\nbuiltin = [\"session_read\"]\n")?;
    let herma = testbed.launch_herma(data, &[("HERMA_CONFIG", &config.to_string_lossy())])?;
    Client::connect(&herma).await?.send(&ask(READ, "A note to read.", Shape::Whole)).await?;
    Ok(herma)
}

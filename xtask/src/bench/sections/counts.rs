//! Counts of a turn, of Herma and of the floor: they say where its cost is, and are steady where times are not.

use std::io;

use super::Rounds;
use super::turns::CLIENTS;
use crate::bench::load::Kind;
use crate::bench::options::Options;
use crate::bench::statistics::median;
use crate::bench::table::Table;
use crate::bench::testbed::{Target, Testbed};
use crate::bench::turn_costs::CountedTarget;

/// Turns in a window.
const TURNS: usize = 640;
/// Turns in a window under callgrind, which makes them fifty times as slow.
const PROFILED_TURNS: usize = 128;

/// The rows of the report.
const ROWS: [(Kind, &[usize]); 4] =
    [(Kind::CHAT, &CLIENTS), (Kind::LONG_CHAT, &CLIENTS), (Kind::STREAMED, &CLIENTS), (Kind::FIRST, &CLIENTS)];

/// Measures every kind of turn, one target after the other. CPU is measured in alternating rounds on processes that do
/// not count.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    let targets: Vec<Target> = options.targets().into_iter().filter(|target| target.keeps_history()).collect();
    let testbed = Testbed::start(&targets)?;
    println!(
        "One turn, without the search index, which Herma writes later. SQL steps are statements and the rows that they\n\
         return, VM steps the instructions of SQLite's machine. Instructions are those of user space; they are counted\n\
         at 1 and 8 clients, if valgrind is installed. CPU is in microseconds, of processes that do not count.\n"
    );
    let mut counting = Vec::new();
    for &target in &targets {
        counting.push((target, CountedTarget::start(&testbed, target)?));
    }
    let mut table = Table::new([
        "turn",
        "history",
        "clients",
        "server",
        "instructions",
        "allocations",
        "KiB",
        "of 1 KiB and more",
        "SQL steps",
        "VM steps",
        "transactions",
        "WAL frames",
        "CPU",
    ]);
    for (kind, clients) in ROWS {
        for &clients in clients {
            let rounds = Rounds::of_targets(&testbed, &kind.plan(clients, TURNS), options.rounds()).await?;
            for (target, counted) in &mut counting {
                let counts = counted.counts(&kind.plan(clients, TURNS)).await?;
                let instructions = match clients {
                    1 | 8 => counted.instructions(&kind.plan(clients, PROFILED_TURNS)).await?,
                    _ => None,
                };
                table.row([
                    kind.name.to_owned(),
                    kind.history.to_string(),
                    clients.to_string(),
                    target.name().to_owned(),
                    instructions.map_or_else(|| "-".to_owned(), |instructions| format!("{instructions:.0}")),
                    format!("{:.1}", counts.allocations),
                    format!("{:.1}", counts.allocated / 1024.0),
                    format!("{:.1}", counts.large_allocations),
                    format!("{:.2}", counts.sql_steps),
                    format!("{:.0}", counts.machine_steps),
                    format!("{:.2}", counts.transactions),
                    format!("{:.2}", counts.frames),
                    format!("{:.0}", median(&rounds.of(target.name(), |round| round.cpu))),
                ]);
            }
        }
    }
    table.print();
    Ok(())
}

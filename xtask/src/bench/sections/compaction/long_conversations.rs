//! Long conversations with automatic compaction: their latest turns compared with early turns of young conversations.

use std::io;

use futures_util::future::try_join_all;

use crate::bench::child::Child;
use crate::bench::load;
use crate::bench::options::Options;
use crate::bench::sections::talk::{Block, Client, turn};
use crate::bench::statistics::{median, median_ratio};
use crate::bench::table::{Table, at_most};
use crate::bench::testbed::Testbed;

/// With this context window a conversation compacts at turn 31, then every 17 turns.
const WINDOW: &str = "2000";
/// Turns that are measured together. Some of them compact.
const BLOCK: usize = 51;
/// Turns of a young conversation before the measured ones.
const YOUNG_TURNS: usize = 4;
/// Long conversations per round. Each is measured beside a young one.
const PER_ROUND: usize = 2;

/// The goal for the cost of a late turn, as a multiple of an early one.
const GOAL: f64 = 1.2;

/// The blocks of turns of all young, or of all old, conversations.
#[derive(Default)]
struct AgeGroup {
    /// Mean latency of the turns of each block, in milliseconds.
    time: Vec<f64>,
    /// CPU per turn of each block, in microseconds.
    cpu: Vec<f64>,
    /// Compactions in each block.
    compactions: Vec<f64>,
}

/// Measures both modes.
pub(super) async fn run(testbed: &Testbed, options: &Options) -> io::Result<()> {
    let (turns, count) = (options.long_turns(), options.rounds() * PER_ROUND);
    println!(
        "One client, conversations from memory, mean cost of a turn with its share of the compactions; \
         {count} conversations\n\
         of {turns} turns, each measured beside a young one:\n"
    );
    let early = format!("turns {} to {}", YOUNG_TURNS + 1, YOUNG_TURNS + BLOCK);
    let late = format!("turns {} to {turns}", turns - BLOCK + 1);
    let mut table = Table::new([
        "mode",
        &early,
        &late,
        "compactions in them",
        "time, late / early",
        "CPU, late / early",
        "database, bytes per message",
    ]);
    for mode in ["split", "in_place"] {
        let settings = [("HERMA_CONTEXT_WINDOW", WINDOW), ("HERMA_COMPACTION__MODE", mode)];
        let herma = testbed.launch_herma(mode, &settings)?;
        let turns_before = turns - BLOCK - 1;
        let names = grow(&herma, count, turns_before).await?;
        let stored = testbed.database_bytes(mode)? as f64 / (count * turns_before * 2) as f64;
        let (young, old) = compare(&herma, &names).await?;
        let ratio = |old: &[f64], young: &[f64]| at_most(median_ratio(old, young), GOAL, "");
        table.row([
            mode.to_owned(),
            young.describe(),
            old.describe(),
            format!("{:.0}, {:.0}", median(&young.compactions), median(&old.compactions)),
            ratio(&old.time, &young.time),
            ratio(&old.cpu, &young.cpu),
            format!("{stored:.0}"),
        ]);
    }
    table.print();
    Ok(())
}

/// Creates conversations with this many turns, all at the same time.
async fn grow(herma: &Child, count: usize, turns: usize) -> io::Result<Vec<String>> {
    let conversations = (0..count).map(async |_| {
        let name = load::session_name();
        Client::connect(herma).await?.talk(&name, turns).await?;
        io::Result::Ok(name)
    });
    try_join_all(conversations).await
}

/// Measures young conversations and these old ones alternately.
async fn compare(herma: &Child, names: &[String]) -> io::Result<(AgeGroup, AgeGroup)> {
    let mut client = Client::connect(herma).await?;
    let (mut young, mut old) = (AgeGroup::default(), AgeGroup::default());
    for (number, name) in names.iter().enumerate() {
        let young_name = load::session_name();
        client.talk(&young_name, YOUNG_TURNS - 1).await?;
        if number % 2 == 0 {
            young.measure(&mut client, &young_name).await?;
            old.measure(&mut client, name).await?;
        } else {
            old.measure(&mut client, name).await?;
            young.measure(&mut client, &young_name).await?;
        }
    }
    Ok((young, old))
}

impl AgeGroup {
    /// Takes one turn that is not measured, then a measured block.
    async fn measure(&mut self, client: &mut Client<'_>, name: &str) -> io::Result<()> {
        let before = client.ask(name).await?.compactions;
        let block: Block = client.block(&[turn(name)], BLOCK).await?;
        let after = client.ask(name).await?.compactions;
        self.time.push(block.mean());
        self.cpu.push(block.cpu());
        self.compactions.push((after - before) as f64);
        Ok(())
    }

    fn describe(&self) -> String {
        format!("{:.2} ms, {:.0} µs CPU", median(&self.time), median(&self.cpu))
    }
}

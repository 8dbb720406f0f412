//! `cargo xtask bench --record` and `--check`: the recorded counts of a turn, and whether a turn has grown beyond them.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::load::Kind;
use super::table::Table;
use super::testbed::{Target, Testbed};
use super::turn_costs::CountedTarget;
use crate::workspace;

/// How much a count may grow before the check fails.
const TOLERANCE: f64 = 1.1;

/// The kinds of turns that are recorded, by their names in the file. One client takes them: what several clients share
/// depends on the time.
const KINDS: [(&str, Kind); 4] = [
    ("chat", Kind::CHAT),
    ("chat-after-200-messages", Kind::LONG_CHAT),
    ("streamed", Kind::STREAMED),
    ("first-turn", Kind::FIRST),
];
/// Turns in a window.
const TURNS: usize = 256;
/// Turns in a window under callgrind.
const PROFILED_TURNS: usize = 96;

const HEADER: &str = "\
# What a turn of one client costs, as `cargo xtask bench --record` counted it. `cargo xtask bench --check` fails if a
# number has grown by more than a tenth. If it had to grow, record it again and say in the commit why.
";

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Recorded {
    /// The compiler that made the measured program.
    compiler: String,
    turns: BTreeMap<String, TurnCosts>,
}

/// The recorded counts of one kind of turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct TurnCosts {
    sql_steps: f64,
    allocations: f64,
    /// `None` if valgrind was not installed.
    instructions: Option<f64>,
}

impl TurnCosts {
    /// The counts by name.
    fn named(&self) -> [(&'static str, Option<f64>); 3] {
        [
            ("SQL steps", Some(self.sql_steps)),
            ("allocations", Some(self.allocations)),
            ("instructions", self.instructions),
        ]
    }
}

/// Counts the turns and writes the file.
pub(super) async fn record() -> io::Result<()> {
    let counted = Recorded { compiler: compiler()?, turns: count().await? };
    if counted.turns.values().any(|costs| costs.instructions.is_none()) {
        return Err(io::Error::other("instructions cannot be recorded without valgrind; install it and run again"));
    }
    let text = toml::to_string(&counted).map_err(io::Error::other)?;
    std::fs::write(path(), format!("{HEADER}\n{text}"))?;
    print(&counted.turns, None);
    println!("\nwritten to {}", path().display());
    Ok(())
}

/// Counts the turns and compares them with the file.
pub(super) async fn check() -> io::Result<()> {
    let text = std::fs::read_to_string(path())?;
    let recorded: Recorded = toml::from_str(&text).map_err(io::Error::other)?;
    let turns = count().await?;
    print(&turns, Some(&recorded));
    if turns.values().any(|costs| costs.instructions.is_none()) {
        println!("\nvalgrind is not installed, so instructions were not counted");
    }
    let findings = findings(&turns, &recorded.turns);
    if findings.is_empty() {
        println!("\nno count has grown by more than a tenth");
        return Ok(());
    }
    let (now, then) = (compiler()?, &recorded.compiler);
    let compilers =
        if now == *then { String::new() } else { format!("\nrecorded with {then}, counted now with {now}") };
    Err(io::Error::other(format!(
        "a turn costs more than recorded:\n{}{compilers}\n\
         If this has to be, run `cargo xtask bench --record` and say in the commit why it grew.",
        findings.join("\n")
    )))
}

fn path() -> PathBuf {
    workspace::root().join("xtask/turn-costs.toml")
}

fn compiler() -> io::Result<String> {
    workspace::output(Command::new("rustc").arg("--version")).map(|version| version.trim().to_owned())
}

async fn count() -> io::Result<BTreeMap<String, TurnCosts>> {
    let testbed = Testbed::start(&[])?;
    let mut herma = CountedTarget::start(&testbed, Target::Herma)?;
    let mut turns = BTreeMap::new();
    for (name, kind) in KINDS {
        let counts = herma.counts(&kind.plan(1, TURNS)).await?;
        let instructions = herma.instructions(&kind.plan(1, PROFILED_TURNS)).await?.map(f64::round);
        let hundredths = |number: f64| (number * 100.0).round() / 100.0;
        let (sql_steps, allocations) = (hundredths(counts.sql_steps), hundredths(counts.allocations));
        turns.insert(name.to_owned(), TurnCosts { sql_steps, allocations, instructions });
    }
    Ok(turns)
}

fn print(turns: &BTreeMap<String, TurnCosts>, recorded: Option<&Recorded>) {
    let mut table = Table::new(["turn", "count", "now", "recorded", "now / recorded"]);
    for (name, costs) in turns {
        let before = recorded.and_then(|recorded| recorded.turns.get(name));
        for (at, (what, now)) in costs.named().into_iter().enumerate() {
            let then = before.and_then(|before| before.named()[at].1);
            let number = |number: Option<f64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
            let ratio = now.zip(then).map_or_else(|| "-".to_owned(), |(now, then)| format!("{:.3}", now / then));
            table.row([name.clone(), what.to_owned(), number(now), number(then), ratio]);
        }
    }
    table.print();
}

/// A line for each count that has grown too much. A kind of turn that is not recorded is one too.
fn findings(turns: &BTreeMap<String, TurnCosts>, recorded: &BTreeMap<String, TurnCosts>) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, costs) in turns {
        let Some(before) = recorded.get(name) else {
            findings.push(format!("{name}: not recorded"));
            continue;
        };
        for ((what, now), (_, then)) in costs.named().into_iter().zip(before.named()) {
            let Some((now, then)) = now.zip(then) else { continue };
            if now > then * TOLERANCE {
                findings.push(format!("{name}: {now} {what} a turn, recorded are {then} ({:.2} times)", now / then));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(costs: TurnCosts) -> BTreeMap<String, TurnCosts> {
        BTreeMap::from([("chat".to_owned(), costs)])
    }

    const RECORDED: TurnCosts = TurnCosts { sql_steps: 20.0, allocations: 400.0, instructions: Some(700_000.0) };

    #[test]
    fn a_count_may_grow_by_a_tenth_and_not_more() {
        let grown = |costs| findings(&turns(costs), &turns(RECORDED));
        assert!(grown(TurnCosts { sql_steps: 22.0, allocations: 100.0, instructions: Some(769_000.0) }).is_empty());
        assert_eq!(
            grown(TurnCosts { sql_steps: 23.0, instructions: Some(800_000.0), ..RECORDED }),
            [
                "chat: 23 SQL steps a turn, recorded are 20 (1.15 times)",
                "chat: 800000 instructions a turn, recorded are 700000 (1.14 times)"
            ]
        );
    }

    #[test]
    fn what_could_not_be_counted_has_not_grown_and_what_is_not_recorded_is_named() {
        assert!(findings(&turns(TurnCosts { instructions: None, ..RECORDED }), &turns(RECORDED)).is_empty());
        assert_eq!(findings(&turns(RECORDED), &BTreeMap::new()), ["chat: not recorded"]);
    }

    #[test]
    fn the_recorded_file_has_every_kind_of_turn() {
        let recorded: Recorded = toml::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap();
        for (name, _) in KINDS {
            assert!(recorded.turns.contains_key(name), "{name}");
        }
    }
}

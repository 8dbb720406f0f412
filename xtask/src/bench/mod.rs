//! `cargo xtask bench`: what Herma costs, compared with the least that a durable gateway could cost.
//!
//! Four targets are measured in one run, in short rounds that alternate. Two shared cores are noisy, so only rounds
//! next to each other can be compared:
//!
//! - `direct`: the upstream itself, called by the load client;
//! - `proxy`: a bare axum and reqwest proxy that stores nothing;
//! - `floor`: the least that a durable gateway can do;
//! - `herma`.
//!
//! Each server is a process of its own, so that its CPU and memory can be measured. `direct` and `proxy` have no
//! sessions, so their client sends the whole history with every turn.
//!
//! As a test, the floor was measured against itself, beside a compiler. The two differed by up to 5 % at 8 and 64
//! clients, and by up to 20 % at one client. Smaller differences mean nothing on such a machine.

mod child;
mod counting;
mod http1;
mod load;
mod options;
mod recorded;
mod sections;
mod servers;
mod statistics;
mod table;
mod testbed;
mod turn_costs;

use std::io;
use std::process::ExitCode;

use clap::Parser as _;

use options::{Options, Section, TurnCosts};

/// Runs the benchmark, or one of the servers that it starts as child processes.
pub(crate) fn run(task: &str, arguments: &[String]) -> ExitCode {
    let done = match (task, arguments) {
        ("bench-run", _) => measure(&Options::parse_from(
            std::iter::once("cargo xtask bench").chain(arguments.iter().map(String::as_str)),
        )),
        ("bench-upstream", []) => servers::upstream::serve(),
        ("bench-proxy", [upstream]) => servers::proxy::serve(upstream),
        ("bench-floor", [upstream, data]) => servers::floor::serve(upstream, data.as_ref()),
        _ => Err(io::Error::other(format!("{task} is no task"))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{task}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the requested sections, or counts the costs of a turn. The client uses one thread, because the servers need the
/// other core.
fn measure(options: &Options) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match options.turn_costs() {
        Some(TurnCosts::Record) => return runtime.block_on(recorded::record()),
        Some(TurnCosts::Check) => return runtime.block_on(recorded::check()),
        None => {}
    }
    let started = std::time::Instant::now();
    println!("{}", options.describe());
    for section in Section::ALL.into_iter().filter(|section| options.includes(*section)) {
        println!("\n## {}\n", section.title());
        runtime.block_on(async {
            match section {
                Section::Turns => sections::turns::run(options).await,
                Section::OtherTurns => sections::other_turns::run(options).await,
                Section::Counts => sections::counts::run(options).await,
                Section::FirstToken => sections::first_token::run(options).await,
                Section::Memory => sections::memory::run(options).await,
                Section::StartUp => sections::start_up::run(options).await,
                Section::Compaction => sections::compaction::run(options).await,
                Section::Responses => sections::responses::run(options).await,
                Section::Tools => sections::tools::run(options).await,
                Section::MemoryRecall => sections::memory_recall::run(options).await,
                Section::Unnamed => sections::unnamed::run(options).await,
                Section::Scale => sections::scale::run(options).await,
            }
        })?;
    }
    println!("\nmeasured in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

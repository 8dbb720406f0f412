//! The time from process start to ready line and to first answer, with few and with many conversations.
//!
//! The server itself fills the store, one turn per conversation. Many clients do it at the same time, so that commits
//! are grouped. This is slower than writing rows, but works with any schema.

mod editor;

use std::io;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::bench::child::Child;
use crate::bench::load::{self, Shape, milliseconds};
use crate::bench::options::Options;
use crate::bench::statistics::{median, median_ratio};
use crate::bench::table::{Table, at_most};
use crate::bench::testbed::{Target, Testbed};

const FEW: usize = 10;
/// Milliseconds to the first answer.
const FEW_GOAL: f64 = 60.0;
const MANY_GOAL: f64 = 100.0;
/// Starts of `serve` and of `acp` in a round. A start takes a few milliseconds, so that any other process disturbs it.
const EDITOR_STARTS: usize = 10;
/// The time of `acp` to its answer to `initialize`, over that of `serve` to its first `/health`.
const EDITOR_GOAL: f64 = 1.5;

const FILLING_CLIENTS: usize = 128;
/// A store that takes longer to fill is measured with what it has by then.
const FILLING_LIMIT: Duration = Duration::from_secs(90);

/// Measures Herma, and the floor for comparison: it uses the same libraries and reads no data at start.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    let testbed = Testbed::start(&[])?;
    println!("Milliseconds from the start of the process. The floor reads nothing back, however much there is.\n");
    let mut table = Table::new(["server", "conversations", "made per second", "ready line", "first answer"]);
    let mut editors = Table::new(["conversations", "serve to /health", "acp to initialize", "acp / serve"]);
    let mut scenarios = vec![(Target::Floor, FEW, FEW_GOAL)];
    if options.has_herma() {
        scenarios.extend([(Target::Herma, FEW, FEW_GOAL), (Target::Herma, options.conversations(), MANY_GOAL)]);
    }
    for (target, wanted, goal) in scenarios {
        let data = format!("{}-{wanted}", target.name());
        let (stored, rate) = fill(&testbed.launch(target, &data)?, wanted).await?;
        let (ready, answer) = starts(&testbed, target, &data, options.rounds()).await?;
        let answer = if target == Target::Herma { at_most(answer, goal, "") } else { format!("{answer:.1}") };
        let name = target.name().to_owned();
        table.row([name, stored.to_string(), format!("{rate:.0}"), format!("{ready:.1}"), answer]);
        if target == Target::Herma {
            let (serve, acp, ratio) = editor_starts(&testbed, &data, options.rounds()).await?;
            let ratio = at_most(ratio, EDITOR_GOAL, "");
            editors.row([stored.to_string(), format!("{serve:.1}"), format!("{acp:.1}"), ratio]);
        }
    }
    table.print();
    if options.has_herma() {
        println!("\nThe same for an editor: the agent that it starts, beside a server on the same data.\n");
        editors.print();
    }
    Ok(())
}

/// Starts `serve` and `acp` in turn on the same data. Returns the median times to the first answer, and the median of
/// the ratios.
async fn editor_starts(testbed: &Testbed, data: &str, rounds: usize) -> io::Result<(f64, f64, f64)> {
    let (mut serve, mut acp) = (Vec::new(), Vec::new());
    for _ in 0..rounds * EDITOR_STARTS {
        serve.push(milliseconds(editor::serve_to_health(testbed, data).await?));
        acp.push(milliseconds(editor::acp_to_initialize(testbed, data)?));
    }
    Ok((median(&serve), median(&acp), median_ratio(&acp, &serve)))
}

/// Starts and kills the server several times on the same data. Returns the median times to ready line and first
/// answer.
async fn starts(testbed: &Testbed, target: Target, data: &str, rounds: usize) -> io::Result<(f64, f64)> {
    let (mut ready, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let child = testbed.launch(target, data)?;
        let mut connection = load::connect(child.address()).await?;
        let request = load::ask(&load::session_name(), "hello", Shape::Whole);
        load::in_time(load::exchange(&mut connection, &request)).await?;
        answered.push(milliseconds(child.started().elapsed()));
        ready.push(milliseconds(child.ready_after()));
    }
    Ok((median(&ready), median(&answered)))
}

/// Creates conversations through the server. Returns how many there are, and how many were made per second.
async fn fill(child: &Child, wanted: usize) -> io::Result<(usize, f64)> {
    let clients = FILLING_CLIENTS.min(wanted);
    let (started, address) = (Instant::now(), child.address());
    let fillers = (0..clients).map(async |index| {
        let mut connection = load::connect(address).await?;
        let mut made = 0;
        while made < wanted / clients + usize::from(index < wanted % clients) && started.elapsed() < FILLING_LIMIT {
            let request = load::ask(&load::session_name(), "A conversation that is there when we start.", Shape::Whole);
            load::in_time(load::exchange(&mut connection, &request)).await?;
            made += 1;
        }
        io::Result::Ok(made)
    });
    let made: usize = try_join_all(fillers).await?.into_iter().sum();
    Ok((made, made as f64 / started.elapsed().as_secs_f64()))
}

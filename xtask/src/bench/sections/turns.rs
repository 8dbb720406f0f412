//! Turns per second, CPU per turn, and the latency that is added to the upstream's.

use std::io;

use super::Rounds;
use crate::bench::load::{Api, Plan, Shape};
use crate::bench::options::Options;
use crate::bench::statistics::{median, median_difference, median_ratio, percentile};
use crate::bench::table::{Table, at_least, at_most};
use crate::bench::testbed::{Server, Target, Testbed};

/// Clients at the same time.
pub(super) const CLIENTS: [usize; 3] = [1, 8, 64];
/// Messages before the first measured turn.
pub(super) const HISTORIES: [usize; 2] = [2, 200];

/// Herma's CPU per turn, as a multiple of the floor's.
const CPU_GOAL: f64 = 1.8;

/// The ratio of the floor's rate to the proxy's on the machine where the goals were set.
const fn reference(clients: usize) -> f64 {
    match clients {
        1 => 0.28,
        8 => 0.40,
        _ => 0.56,
    }
}

/// The goal for the ratio of Herma's rate to the floor's.
const fn goal(clients: usize) -> f64 {
    if clients == 8 { 0.7 } else { 0.75 }
}

/// Measures every number of clients with every length of history.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    let testbed = Testbed::start_beside(&options.targets(), options.before())?;
    let mut measured = Vec::new();
    for history in options.histories(&HISTORIES) {
        for clients in options.clients(&CLIENTS) {
            let plan = Plan { clients, turns: options.turns(clients), history, shape: Shape::Whole, api: Api::Chat };
            measured.push((plan, Rounds::of_targets(&testbed, &plan, options.rounds()).await?));
        }
    }
    let targets: Vec<Target> = testbed.servers().iter().map(Server::target).collect();
    rates(&measured, &targets);
    cpu(&measured, &targets);
    latencies(&measured, &targets);
    Ok(())
}

type Measured = [(Plan, Rounds)];

fn rates(measured: &Measured, targets: &[Target]) {
    println!("Turns per second, and ratios:\n");
    let with_herma = targets.contains(&Target::Herma);
    let mut header = columns(targets);
    header.push("floor/proxy".to_owned());
    if with_herma {
        header.extend(["herma/floor", "herma/proxy"].map(str::to_owned));
    }
    let with_before = targets.contains(&Target::Before);
    header.extend(with_before.then(|| "herma/before".to_owned()));
    let mut table = Table::new(header);
    for (plan, rounds) in measured {
        let rate = |target: Target| rounds.of(target.name(), |round| round.rate);
        let ratio = |over, under| median_ratio(&rate(over), &rate(under));
        let mut cells = scenario(plan);
        cells.extend(targets.iter().map(|&target| format!("{:.0}", median(&rate(target)))));
        let seen = reference(plan.clients);
        cells.push(format!("{:.2} (elsewhere {seen:.2})", ratio(Target::Floor, Target::Proxy)));
        if with_herma {
            cells.push(at_least(ratio(Target::Herma, Target::Floor), goal(plan.clients)));
            cells.push(format!("{:.2}", ratio(Target::Herma, Target::Proxy)));
        }
        cells.extend(with_before.then(|| format!("{:.2}", ratio(Target::Herma, Target::Before))));
        table.row(cells);
    }
    table.print();
}

fn cpu(measured: &Measured, targets: &[Target]) {
    println!("\nCPU of the server per turn, in microseconds (direct: of the upstream itself):\n");
    let with_herma = targets.contains(&Target::Herma);
    let mut header = columns(targets);
    header.push("floor/proxy".to_owned());
    if with_herma {
        header.push("herma/floor".to_owned());
    }
    let with_before = targets.contains(&Target::Before);
    header.extend(with_before.then(|| "herma/before".to_owned()));
    let mut table = Table::new(header);
    for (plan, rounds) in measured {
        let cpu = |target: Target| median(&rounds.of(target.name(), |round| round.cpu));
        let mut cells = scenario(plan);
        cells.extend(targets.iter().map(|&target| format!("{:.0}", cpu(target))));
        cells.push(format!("{:.2}", cpu(Target::Floor) / cpu(Target::Proxy)));
        if with_herma {
            cells.push(at_most(cpu(Target::Herma) / cpu(Target::Floor), CPU_GOAL, ""));
        }
        cells.extend(with_before.then(|| format!("{:.2}", cpu(Target::Herma) / cpu(Target::Before))));
        table.row(cells);
    }
    table.print();
}

fn latencies(measured: &Measured, targets: &[Target]) {
    println!("\nLatency of a turn in milliseconds, p50 / p99; the others as what they add to direct:\n");
    let mut table = Table::new(columns(targets));
    for (plan, rounds) in measured {
        let latency = |target: Target, percent| rounds.of(target.name(), |round| percentile(&round.latencies, percent));
        let mut cells = scenario(plan);
        for &target in targets {
            cells.push(if target == Target::Direct {
                format!("{:.2} / {:.2}", median(&latency(target, 50)), median(&latency(target, 99)))
            } else {
                let added = |percent| median_difference(&latency(Target::Direct, percent), &latency(target, percent));
                format!("{:+.2} / {:+.2}", added(50), added(99))
            });
        }
        table.row(cells);
    }
    table.print();
}

fn columns(targets: &[Target]) -> Vec<String> {
    let names = targets.iter().map(|target| target.name().to_owned());
    ["clients", "history"].map(str::to_owned).into_iter().chain(names).collect()
}

fn scenario(plan: &Plan) -> Vec<String> {
    vec![plan.clients.to_string(), plan.history.to_string()]
}

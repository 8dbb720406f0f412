//! How much later the first token comes than from the upstream itself.

use std::io;

use super::Rounds;
use crate::bench::load::{Api, Pace, Plan, Shape};
use crate::bench::options::Options;
use crate::bench::servers::upstream::PAUSE_LENGTH;
use crate::bench::statistics::{median, median_difference, percentile};
use crate::bench::table::{Table, at_most};
use crate::bench::testbed::{Target, Testbed};

/// Milliseconds that Herma may add.
const GOAL: f64 = 0.5;

/// Measures one client, with an upstream that pauses before its first byte and with one that does not.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    let targets = options.targets();
    let testbed = Testbed::start(&targets)?;
    println!(
        "One client, streams. Milliseconds to the first text, p50 / p99; the others as what they add to direct. \
         A model\n\
         thinks before its first token: the goal is for an upstream that waits {} ms. \
         Without that wait nothing can be\n\
         done meanwhile, and what must be durable before the first byte is seen whole.\n",
        PAUSE_LENGTH.as_millis()
    );
    let names = targets.iter().map(|target| target.name().to_owned());
    let mut table = Table::new(["upstream".to_owned(), "history".to_owned()].into_iter().chain(names));
    for (pace, history) in [(Pace::Paused, 2), (Pace::Paused, 200), (Pace::Usual, 2), (Pace::Usual, 200)] {
        let turns = options.turns(1) / 4;
        let plan = Plan { clients: 1, turns, history, shape: Shape::Streamed(pace), api: Api::Chat };
        let rounds = Rounds::of_targets(&testbed, &plan, options.rounds()).await?;
        let after =
            |target: Target, percent| rounds.of(target.name(), |round| percentile(&round.first_tokens, percent));
        let waits = pace == Pace::Paused;
        let mut cells = vec![if waits { "waits" } else { "at once" }.to_owned(), history.to_string()];
        for &target in &targets {
            let added = |percent| median_difference(&after(Target::Direct, percent), &after(target, percent));
            cells.push(match target {
                Target::Direct => format!("{:.2} / {:.2}", median(&after(target, 50)), median(&after(target, 99))),
                Target::Herma if waits => format!("{} / {:+.2}", at_most(added(50), GOAL, ""), added(99)),
                _ => format!("{:+.2} / {:+.2}", added(50), added(99)),
            });
        }
        table.row(cells);
    }
    table.print();
    Ok(())
}

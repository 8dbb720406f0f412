//! The sections of the report. Each starts its servers, measures in alternating rounds, and prints.

pub(super) mod compaction;
pub(super) mod counts;
pub(super) mod first_token;
pub(super) mod memory;
pub(super) mod memory_recall;
pub(super) mod other_turns;
pub(super) mod responses;
pub(super) mod scale;
pub(super) mod start_up;
mod talk;
pub(super) mod tools;
pub(super) mod turns;
pub(super) mod unnamed;

use std::io;

use super::load::{self, Plan, Round};
use super::testbed::{Server, Testbed};

/// One participant of a comparison: a server and a plan.
struct Lane<'a> {
    name: &'static str,
    server: &'a Server,
    plan: Plan,
}

/// The rounds of each lane, by its name.
struct Rounds(Vec<(&'static str, Vec<Round>)>);

impl Rounds {
    /// Measures all targets with the same plan.
    async fn of_targets(testbed: &Testbed, plan: &Plan, rounds: usize) -> io::Result<Self> {
        let lane = |server| Lane { name: Server::target(server).name(), server, plan: *plan };
        Self::measure(testbed, &testbed.servers().iter().map(lane).collect::<Vec<_>>(), rounds).await
    }

    /// Measures the lanes in alternating rounds; every second round has the opposite order. The first round of each
    /// lane is a warm-up.
    async fn measure(testbed: &Testbed, lanes: &[Lane<'_>], rounds: usize) -> io::Result<Self> {
        let mut measured: Vec<(&'static str, Vec<Round>)> = Vec::new();
        for lane in lanes {
            let warm_up = Plan { turns: lane.plan.turns / 4 + lane.plan.clients, ..lane.plan };
            lane.round(testbed, &warm_up).await?;
            measured.push((lane.name, Vec::new()));
        }
        for number in 0..rounds {
            let mut order: Vec<usize> = (0..measured.len()).collect();
            if number % 2 == 1 {
                order.reverse();
            }
            for index in order {
                measured[index].1.push(lanes[index].round(testbed, &lanes[index].plan).await?);
            }
        }
        Ok(Self(measured))
    }

    /// One number of each round of a lane, in order. Empty if there is no such lane.
    fn of(&self, name: &str, number: impl Fn(&Round) -> f64) -> Vec<f64> {
        let rounds = self.0.iter().find(|(other, _)| *other == name);
        rounds.map(|(_, rounds)| rounds.iter().map(number).collect()).unwrap_or_default()
    }
}

impl Lane<'_> {
    async fn round(&self, testbed: &Testbed, plan: &Plan) -> io::Result<Round> {
        let round = load::round(testbed, self.server, plan).await;
        round.map_err(|error| io::Error::other(format!("{}: {error}", self.name)))
    }
}

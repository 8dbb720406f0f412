//! The parts of the report. Each starts what it needs, measures in interleaved rounds, and prints.

pub(super) mod compaction;
pub(super) mod first_token;
pub(super) mod memory;
pub(super) mod start_up;
pub(super) mod turns;

use std::io;

use super::field::{Field, Target};
use super::load::{self, Plan, Round};

/// All rounds of one scenario, by target.
struct Rounds(Vec<(Target, Vec<Round>)>);

impl Rounds {
    /// Lets the targets take turns, in opposite order every other round, after one round that does not count.
    async fn measure(field: &Field, plan: &Plan, rounds: usize) -> io::Result<Self> {
        let warm_up = Plan { turns: plan.turns / 4 + plan.clients, ..*plan };
        let mut measured: Vec<(Target, Vec<Round>)> = Vec::new();
        for server in field.servers() {
            load::round(field, server, &warm_up).await.map_err(|error| named(server.target(), &error))?;
            measured.push((server.target(), Vec::new()));
        }
        for number in 0..rounds {
            let mut order: Vec<usize> = (0..measured.len()).collect();
            if number % 2 == 1 {
                order.reverse();
            }
            for index in order {
                let server = &field.servers()[index];
                let round = load::round(field, server, plan).await;
                measured[index].1.push(round.map_err(|error| named(server.target(), &error))?);
            }
        }
        Ok(Self(measured))
    }

    /// One number of each round of a target, in the order of the rounds; none if it takes no part.
    fn of(&self, target: Target, number: impl Fn(&Round) -> f64) -> Vec<f64> {
        let rounds = self.0.iter().find(|(other, _)| *other == target);
        rounds.map(|(_, rounds)| rounds.iter().map(number).collect()).unwrap_or_default()
    }
}

fn named(target: Target, error: &io::Error) -> io::Error {
    io::Error::other(format!("{}: {error}", target.name()))
}

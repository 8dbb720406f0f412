//! What a client does next. All of it is drawn before the turn begins, so that the seed fixes it.

use std::time::Duration;

use super::apis::{Api, HangUp};
use super::history::Retries;
use super::options::{Options, Situation};
use crate::random::Random;

/// The plan for one turn of a client.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The turn goes to a conversation that many clients share, not to the client's own.
    pub(super) is_shared: bool,
    pub(super) api: Api,
    /// The request has the whole history, if the client knows it.
    pub(super) brings_history: bool,
    /// The request names the last response.
    pub(super) names_response: bool,
    /// The client makes a branch first and sends the turn there.
    pub(super) branches: bool,
    /// The model calls a tool of Herma's in this turn.
    pub(super) calls_tool: bool,
    /// The turn policy header, if any.
    pub(super) policy: Option<&'static str>,
    pub(super) retries: Retries,
    /// If the turn fails, the client retries it with its key after other turns.
    pub(super) is_late: bool,
    pub(super) words: u64,
    /// When the client hangs up in its first request.
    pub(super) hangs_up: Option<HangUp>,
    /// How long the client waits for a whole answer.
    pub(super) patience: Duration,
    /// The pause before the next turn.
    pub(super) rest: Duration,
    /// Random bits that select ids, processes and pauses.
    pub(super) choices: u64,
}

/// How long a client waits that does not give up early.
const LONG_PATIENCE: Duration = Duration::from_secs(40);

impl Plan {
    /// Draws the next plan. Always takes the same number of random numbers.
    pub(super) fn draw(options: &Options, random: &mut Random) -> Self {
        let mut chance = |percent: u64| random.below(100) < percent;
        let (is_shared, brings_history, names_response) = (chance(45), chance(50), chance(30));
        let (is_late, branches, hangs_up, waits) = (chance(60), chance(3), chance(14), chance(70));
        let (hang_up_at_bytes, calls_tool) = (chance(40), chance(25));
        let api = match random.below(10) {
            0..3 => Api::Chat { is_streamed: false },
            3..6 => Api::Chat { is_streamed: true },
            6 => Api::Response { is_streamed: false },
            7 => Api::Response { is_streamed: true },
            _ => Api::Run,
        };
        let may_retry_run = api != Api::Run || options.has(Situation::SharedRunRetries);
        let may_retry = !is_shared || (options.has(Situation::SharedRetries) && may_retry_run);
        let retries = match random.below(10) {
            _ if !may_retry => Retries::Never,
            0..4 if options.has(Situation::CountedRetries) => Retries::Counted,
            4..9 if options.has(Situation::KeyedRetries) => Retries::Keyed,
            _ => Retries::Never,
        };
        let policy = match random.below(20) {
            0 | 1 => Some("reject"),
            2 if options.has(Situation::Interrupts) => Some("interrupt"),
            3 if options.has(Situation::Branches) => Some("branch"),
            4 => Some("queue"),
            _ => None,
        };
        let (words, hang_up, patience, rest) =
            (random.below(60), 5 + random.below(1500), 3000 + random.below(3000), random.below(200));
        let hang_up =
            if hang_up_at_bytes { HangUp::AtFirstBytes } else { HangUp::After(Duration::from_millis(hang_up)) };
        let gives_up = !waits && options.has(Situation::Timeouts);
        Self {
            is_shared,
            api,
            brings_history,
            names_response,
            branches: branches && options.has(Situation::Branches),
            calls_tool: calls_tool && options.has(Situation::Tools),
            policy,
            retries,
            is_late: is_late && options.has(Situation::LateKeys),
            words,
            hangs_up: (hangs_up && options.has(Situation::HangUps)).then_some(hang_up),
            patience: if gives_up { Duration::from_millis(patience) } else { LONG_PATIENCE },
            rest: Duration::from_millis(rest),
            choices: random.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::marks::stream;
    use clap::Parser as _;

    fn plans(options: &Options, seed: u64) -> Vec<Plan> {
        let random = &mut stream(seed, 1);
        (0..300).map(|_| Plan::draw(options, random)).collect()
    }

    #[test]
    fn a_seed_fixes_the_plan() {
        let options = Options::parse_from(["chaos"]);
        assert_eq!(format!("{:?}", plans(&options, 1)), format!("{:?}", plans(&options, 1)));
        assert_ne!(format!("{:?}", plans(&options, 1)), format!("{:?}", plans(&options, 2)));
    }

    #[test]
    fn a_situation_that_is_left_out_changes_nothing_else() {
        let (all, without) = (Options::parse_from(["chaos"]), Options::parse_from(["chaos", "--without", "hang-ups"]));
        let (all, without) = (plans(&all, 1), plans(&without, 1));
        assert!(all.iter().any(|plan| plan.hangs_up.is_some()));
        for (one, other) in all.into_iter().zip(without) {
            assert_eq!(format!("{:?}", Plan { hangs_up: None, ..one }), format!("{other:?}"));
        }
    }
}

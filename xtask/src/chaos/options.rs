//! The options of a run.

use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Runs two `herma serve` on one store with many clients, kills, pauses and failures; then reads everything back and
/// checks it.
#[derive(Debug, Parser)]
pub(super) struct Options {
    /// How long the long form runs. It also stops processes for longer than a lease.
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    minutes: Option<u64>,
    /// How long the short form runs.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// The seed of all random choices: what clients ask, and which disturbances happen. Timing does not depend on it.
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// How many clients send requests at the same time.
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(super) clients: u64,
    /// Continues after a round with findings.
    #[arg(long)]
    pub(super) keep_going: bool,
    /// Leaves a situation out; may be given several times.
    #[arg(long, value_name = "SITUATION")]
    without: Vec<Situation>,
}

/// Something that the run does to processes, clients or the model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Situation {
    /// `SIGKILL` and a restart.
    Kills,
    /// `SIGTERM` and a restart.
    Drains,
    /// `SIGSTOP`, and `SIGCONT` within 3 s.
    Pauses,
    /// `SIGSTOP` for longer than a lease; only in the long form.
    LongPauses,
    /// Another program holds the store's write lock for up to 2 s, in the long form for up to 8 s.
    Locks,
    /// Another program holds the write lock for more than 6 s while an answer must be written; only in the long form.
    LongLocks,
    /// Clients that hang up in the middle of an answer.
    HangUps,
    /// Clients that wait 3 s to 6 s and then retry.
    Timeouts,
    /// Retries with a count, as the official SDKs send them.
    CountedRetries,
    /// Retries with `Idempotency-Key`.
    KeyedRetries,
    /// Retries in shared conversations, where turns of other clients come between.
    SharedRetries,
    /// Retries of runs in shared conversations, where another turn may be running.
    SharedRunRetries,
    /// Retries with a key after a failure and later turns.
    LateKeys,
    /// The model server fails, breaks off, or is slow.
    ModelFailures,
    /// Conversations that outgrow the context window.
    Splits,
    /// Turns that interrupt the running one.
    Interrupts,
    /// Branches, by request and by turn policy.
    Branches,
    /// Turns in which the model calls a tool of Herma's.
    Tools,
}

impl Options {
    /// How long clients send requests.
    pub(super) fn duration(&self) -> Duration {
        let minutes = self.minutes.map(|minutes| Duration::from_secs(60 * minutes));
        minutes.unwrap_or_else(|| Duration::from_secs(self.seconds.unwrap_or(60)))
    }

    /// Whether processes may be stopped for longer than a lease.
    pub(super) fn is_long(&self) -> bool {
        self.minutes.is_some()
    }

    /// Whether a situation is part of the run.
    pub(super) fn has(&self, situation: Situation) -> bool {
        let is_for_long_only = matches!(situation, Situation::LongPauses | Situation::LongLocks);
        !self.without.contains(&situation) && (self.is_long() || !is_for_long_only)
    }

    /// The command that repeats this plan.
    pub(super) fn command(&self, seed: u64) -> String {
        let length = match (self.minutes, self.seconds) {
            (Some(minutes), _) => format!("--minutes {minutes}"),
            (None, seconds) => format!("--seconds {}", seconds.unwrap_or(60)),
        };
        let mut command = format!("cargo xtask chaos {length} --seed {seed} --clients {}", self.clients);
        for left_out in self.without.iter().filter_map(Situation::to_possible_value) {
            command.push_str(" --without ");
            command.push_str(left_out.get_name());
        }
        command
    }
}

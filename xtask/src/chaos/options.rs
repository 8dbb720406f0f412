//! What can be asked of a run.

use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Two `herma serve` on one store, many clients, kills, pauses and failures; then everything is read back and checked.
#[derive(Debug, Parser)]
pub(super) struct Options {
    /// How long the long form runs. It also stops processes for longer than a lease.
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    minutes: Option<u64>,
    /// How long the short form runs.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Where all random choices come from. What clients ask and what is disturbed follow from it; timing does not.
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// How many clients ask at the same time.
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(super) clients: u64,
    /// Goes on after a round in which something was broken.
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
    /// `SIGSTOP` for longer than a lease: in the long form only.
    LongPauses,
    /// The store's write lock is held by another program for up to 2 s, in the long form for up to 8 s.
    Locks,
    /// That lock is held for more than 6 s while an answer is to be written: in the long form only.
    LongLocks,
    /// Clients that hang up in the middle of an answer.
    HangUps,
    /// Clients that wait 3 s to 6 s and then try again.
    Timeouts,
    /// Retries as the official SDKs make them.
    CountedRetries,
    /// Retries by `Idempotency-Key`.
    KeyedRetries,
    /// Retries in conversations that other clients use too, so that other turns come between.
    SharedRetries,
    /// Retries of runs in such conversations: they may find another turn running.
    SharedRunRetries,
    /// Retries by key after a failure and other turns.
    LateKeys,
    /// The model server fails, breaks off, and is slow.
    ModelFailures,
    /// Conversations that outgrow the model.
    Splits,
    /// Turns that stop the running one.
    Interrupts,
    /// Branches, by request and by turn policy.
    Branches,
}

impl Options {
    /// How long clients are at work.
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

    /// The command that makes the same plan again.
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

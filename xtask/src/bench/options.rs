//! What can be asked of a run.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};

use super::field::Target;

/// Measures Herma beside the upstream itself, a bare proxy and the durable floor.
#[derive(Debug, Parser)]
pub(super) struct Options {
    /// Fewer rounds and smaller counts: for trying a change, not for a decision.
    #[arg(long)]
    quick: bool,
    /// Rounds per scenario; decide on at least 8.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// One section alone.
    #[arg(long, value_name = "SECTION")]
    only: Option<Section>,
    /// Leaves Herma out.
    #[arg(long)]
    without_herma: bool,
    /// Conversations stored for the second start-up measurement.
    #[arg(long, value_name = "N")]
    conversations: Option<usize>,
    /// Conversations of the large store in `scale`, ten messages each.
    #[arg(long, value_name = "N")]
    scale: Option<u64>,
    /// Keeps that store in a directory, and takes it again if it is there.
    #[arg(long, value_name = "DIR")]
    scale_data: Option<PathBuf>,
}

/// A part of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Section {
    /// Turns per second, CPU per turn, added latency.
    Turns,
    /// Time to first token.
    FirstToken,
    /// Memory, idle and per open stream.
    Memory,
    /// From start to first answer.
    StartUp,
    /// Turns after compactions, beside turns before many of them.
    Compaction,
    /// Responses beside chat turns.
    Responses,
    /// A store with a million conversations. Takes as long as all others together: only if it is asked for.
    Scale,
}

impl Section {
    /// In the order of the report.
    pub(super) const ALL: [Self; 7] =
        [Self::Turns, Self::FirstToken, Self::Memory, Self::StartUp, Self::Compaction, Self::Responses, Self::Scale];

    /// The heading.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Turns => "Durable turns: rate, CPU, latency",
            Self::FirstToken => "Time to first token",
            Self::Memory => "Memory",
            Self::StartUp => "Start-up",
            Self::Compaction => "Compaction",
            Self::Responses => "Responses",
            Self::Scale => "Scale",
        }
    }
}

impl Options {
    /// Rounds per scenario.
    pub(super) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 3 } else { 9 }).max(1)
    }

    /// Turns that all clients together take in a round.
    pub(super) fn turns(&self, clients: usize) -> usize {
        let turns = match clients {
            1 => 480,
            2..=16 => 640,
            _ => 1536,
        };
        if self.quick { turns / 2 } else { turns }
    }

    /// Streams held open at once.
    pub(super) fn streams(&self) -> usize {
        if self.quick { 200 } else { 1000 }
    }

    /// Conversations in the large store.
    pub(super) fn conversations(&self) -> usize {
        self.conversations.unwrap_or(if self.quick { 5_000 } else { 100_000 })
    }

    /// Conversations in the store of a million.
    pub(super) fn scale(&self) -> u64 {
        self.scale.unwrap_or(if self.quick { 20_000 } else { 1_000_000 })
    }

    /// Where that store is kept.
    pub(super) fn scale_data(&self) -> Option<&Path> {
        self.scale_data.as_deref()
    }

    /// Reads of one kind.
    pub(super) fn pages(&self) -> usize {
        if self.quick { 80 } else { 400 }
    }

    /// Sessions of a Hermes database that is imported.
    pub(super) fn imported(&self) -> usize {
        if self.quick { 1_000 } else { 10_000 }
    }

    /// Turns in the life of a long conversation.
    pub(super) fn life(&self) -> usize {
        if self.quick { 250 } else { 1000 }
    }

    /// The targets, in the order of the report.
    pub(super) fn targets(&self) -> Vec<Target> {
        Target::ALL.into_iter().filter(|target| self.has_herma() || *target != Target::Herma).collect()
    }

    /// Whether Herma takes part.
    pub(super) fn has_herma(&self) -> bool {
        !self.without_herma
    }

    /// Whether a section is asked for.
    pub(super) fn includes(&self, section: Section) -> bool {
        self.only.map_or(section != Section::Scale, |only| only == section)
    }

    /// The first line of the report.
    pub(super) fn describe(&self) -> String {
        let targets: Vec<&str> = self.targets().into_iter().map(Target::name).collect();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let quick = if self.quick { ", quick: for trying, not for deciding" } else { "" };
        format!(
            "{} interleaved, medians of {} rounds, {cores} cores for all of them and the load client{quick}",
            targets.join(", "),
            self.rounds()
        )
    }
}

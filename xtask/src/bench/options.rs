//! The options of a benchmark run.

use std::path::{Path, PathBuf};

use clap::{Parser, ValueEnum};

use super::testbed::Target;

/// Measures Herma beside the upstream itself, a bare proxy and the durable floor.
#[derive(Debug, Parser)]
pub(super) struct Options {
    /// Fewer rounds and smaller counts. Good enough to try a change, not for a decision.
    #[arg(long)]
    quick: bool,
    /// Rounds per scenario; a decision needs at least 8.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Runs only this section.
    #[arg(long, value_name = "SECTION")]
    only: Option<Section>,
    /// Counts what a turn costs and writes it to `xtask/turn-costs.toml`; measures nothing else.
    #[arg(long, conflicts_with_all = ["only", "check", "without_herma"])]
    record: bool,
    /// Fails if a turn costs a tenth more than recorded; measures nothing else.
    #[arg(long, conflicts_with_all = ["only", "without_herma"])]
    check: bool,
    /// Measures without Herma.
    #[arg(long)]
    without_herma: bool,
    /// Another release binary of Herma, from before a change, say. `turns` measures it in the same rounds.
    #[arg(long, value_name = "BINARY", conflicts_with = "without_herma")]
    before: Option<PathBuf>,
    /// `turns` measures only this many clients. Good for a profile.
    #[arg(long, value_name = "N")]
    clients: Option<usize>,
    /// `turns` measures only after this many messages.
    #[arg(long, value_name = "N")]
    history: Option<usize>,
    /// Conversations stored for the second start-up measurement.
    #[arg(long, value_name = "N")]
    conversations: Option<usize>,
    /// Conversations in the large store of `scale`, ten messages each.
    #[arg(long, value_name = "N")]
    scale: Option<u64>,
    /// Keeps the large store in this directory, and reuses it if it is there.
    #[arg(long, value_name = "DIR")]
    scale_data: Option<PathBuf>,
}

/// A part of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Section {
    /// Turns per second, CPU per turn, added latency.
    Turns,
    /// First turns, bursts, shared conversations, streams.
    OtherTurns,
    /// Instructions, allocations, SQL steps and log pages per turn.
    Counts,
    /// Time to first token.
    FirstToken,
    /// Memory, idle and per open stream.
    Memory,
    /// Time from process start to first answer.
    StartUp,
    /// Turns after many compactions, compared with early turns.
    Compaction,
    /// Responses compared with chat turns.
    Responses,
    /// Turns with a round of a built-in tool, compared with turns without tools.
    Tools,
    /// Turns that recall from 100,000 memories, compared with turns that do not.
    MemoryRecall,
    /// Whole histories without a session name, compared with the same ones with a name.
    Unnamed,
    /// A store with a million conversations. Takes as long as all other sections together, so it runs only on
    /// request.
    Scale,
}

impl Section {
    /// All sections, in the order of the report.
    pub(super) const ALL: [Self; 12] = [
        Self::Turns,
        Self::OtherTurns,
        Self::Counts,
        Self::FirstToken,
        Self::Memory,
        Self::StartUp,
        Self::Compaction,
        Self::Responses,
        Self::Tools,
        Self::MemoryRecall,
        Self::Unnamed,
        Self::Scale,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Turns => "Durable turns: rate, CPU, latency",
            Self::OtherTurns => "First turns, bursts, shared conversations, streams",
            Self::Counts => "Counts of a turn",
            Self::FirstToken => "Time to first token",
            Self::Memory => "Memory",
            Self::StartUp => "Start-up",
            Self::Compaction => "Compaction",
            Self::Responses => "Responses",
            Self::Tools => "Tool rounds",
            Self::MemoryRecall => "Recall",
            Self::Unnamed => "Clients without session names",
            Self::Scale => "Scale",
        }
    }
}

/// What to do with the counts of a turn, in place of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnCosts {
    Record,
    Check,
}

impl Options {
    /// `None` for a report.
    pub(super) fn turn_costs(&self) -> Option<TurnCosts> {
        match (self.record, self.check) {
            (true, _) => Some(TurnCosts::Record),
            (_, true) => Some(TurnCosts::Check),
            (false, false) => None,
        }
    }

    pub(super) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 3 } else { 9 }).max(1)
    }

    /// The numbers of clients to measure.
    pub(super) fn clients(&self, all: &[usize]) -> Vec<usize> {
        self.clients.map_or_else(|| all.to_vec(), |clients| vec![clients])
    }

    /// The numbers of earlier messages to measure with.
    pub(super) fn histories(&self, all: &[usize]) -> Vec<usize> {
        self.history.map_or_else(|| all.to_vec(), |history| vec![history])
    }

    /// Turns of all clients together in a round.
    pub(super) fn turns(&self, clients: usize) -> usize {
        let turns = match clients {
            1 => 960,
            2..=16 => 2560,
            _ => 6144,
        };
        if self.quick { turns / 2 } else { turns }
    }

    /// Streams that are open at the same time.
    pub(super) fn streams(&self) -> usize {
        if self.quick { 200 } else { 1000 }
    }

    /// Conversations for the second start-up measurement.
    pub(super) fn conversations(&self) -> usize {
        self.conversations.unwrap_or(if self.quick { 5_000 } else { 100_000 })
    }

    /// Conversations in the large store of `scale`.
    pub(super) fn scale(&self) -> u64 {
        self.scale.unwrap_or(if self.quick { 20_000 } else { 1_000_000 })
    }

    /// The directory that keeps the large store.
    pub(super) fn scale_data(&self) -> Option<&Path> {
        self.scale_data.as_deref()
    }

    /// Facts in the memory of `memory-recall`.
    pub(super) fn memories(&self) -> usize {
        if self.quick { 10_000 } else { 100_000 }
    }

    /// Requests of one kind.
    pub(super) fn pages(&self) -> usize {
        if self.quick { 80 } else { 400 }
    }

    /// Sessions in the Hermes database for the import.
    pub(super) fn imported(&self) -> usize {
        if self.quick { 1_000 } else { 10_000 }
    }

    /// Turns of a long conversation.
    pub(super) fn long_turns(&self) -> usize {
        if self.quick { 250 } else { 1000 }
    }

    /// The targets, in the order of the report.
    pub(super) fn targets(&self) -> Vec<Target> {
        let [direct, proxy, floor, herma] = Target::ALL;
        [direct, proxy, floor].into_iter().chain(self.has_herma().then_some(herma)).collect()
    }

    /// The other binary of Herma that is measured beside this one.
    pub(super) fn before(&self) -> Option<&Path> {
        self.before.as_deref()
    }

    /// Whether Herma is measured.
    pub(super) fn has_herma(&self) -> bool {
        !self.without_herma
    }

    /// Whether a section runs. `scale` and `counts` run only on request. A run of everything requests `counts` after
    /// the others, because it needs another build.
    pub(super) fn includes(&self, section: Section) -> bool {
        let is_usual = !matches!(section, Section::Scale | Section::Counts);
        self.only.map_or(is_usual, |only| only == section)
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

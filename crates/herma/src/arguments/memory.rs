//! The command line of `herma memory`.

use clap::{Args, Subcommand};
use herma_gateway::access::DEFAULT_TENANT;
use herma_model::SessionKey;
use herma_model::limits::DEFAULT_PAGE;
use herma_wire::resource::memory_text;

use super::{at_least_one, tenant};

#[derive(Subcommand)]
pub(crate) enum MemoryCommand {
    /// List what is remembered, newest first
    #[command(after_help = LIST_HELP)]
    List(MemoryListFlags),
    /// Add a fact about a session key
    #[command(after_help = ADD_HELP)]
    Add(MemoryAddFlags),
    /// Forget a fact
    #[command(after_help = FORGET_HELP)]
    Forget(MemoryForgetFlags),
}

pub(super) const MEMORY_HELP: &str = "\
Examples:
  herma memory list --session-key agent:main:dm:ann
  herma memory add --session-key agent:main:dm:ann 'Ann is allergic to nuts'
  herma memory forget e5f60718";

const LIST_HELP: &str = "\
Examples:
  herma memory list
  herma memory list --session-key agent:main:dm:ann --all
  herma memory list --json | jq -r .text";

/// Flags that every verb has.
#[derive(Args)]
pub(crate) struct MemoryShared {
    /// Tenant whose memory is meant
    #[arg(long, value_name = "NAME", value_parser = tenant, default_value = DEFAULT_TENANT)]
    pub(crate) tenant: String,
    /// Print JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `memory list`.
#[derive(Args)]
pub(crate) struct MemoryListFlags {
    #[command(flatten)]
    pub(crate) shared: MemoryShared,
    /// Only facts about this session key
    #[arg(long, value_name = "KEY", value_parser = |text: &str| SessionKey::parse(text))]
    pub(crate) session_key: Option<SessionKey>,
    /// Most facts
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_PAGE, conflicts_with = "all", value_parser = at_least_one::<usize>)]
    pub(crate) limit: usize,
    /// List every fact
    #[arg(long)]
    pub(crate) all: bool,
}

const ADD_HELP: &str = "\
Examples:
  herma memory add --session-key agent:main:dm:ann 'Ann is allergic to nuts'

Prints the id of the fact.";

/// Flags of `memory add`.
#[derive(Args)]
pub(crate) struct MemoryAddFlags {
    #[command(flatten)]
    pub(crate) shared: MemoryShared,
    /// Session key that the fact is about
    #[arg(long, value_name = "KEY", value_parser = |text: &str| SessionKey::parse(text))]
    pub(crate) session_key: SessionKey,
    /// What is to be remembered
    #[arg(value_name = "TEXT", value_parser = |text: &str| memory_text(text))]
    pub(crate) text: String,
}

const FORGET_HELP: &str = "\
Examples:
  herma memory forget e5f60718";

/// Flags of `memory forget`.
#[derive(Args)]
pub(crate) struct MemoryForgetFlags {
    #[command(flatten)]
    pub(crate) shared: MemoryShared,
    /// Fact, by its short id, its id, or as much of its id's beginning as is unique
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

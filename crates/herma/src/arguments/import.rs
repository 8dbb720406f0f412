//! The command line of `herma import`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use herma_gateway::access::DEFAULT_TENANT;

use super::tenant;

#[derive(Subcommand)]
pub(crate) enum ImportCommand {
    /// Bring in the conversations of a Hermes database, or what is new in them
    #[command(after_help = HERMES_HELP)]
    Hermes(HermesFlags),
}

/// The end of `herma import --help`.
pub(super) const IMPORT_HELP: &str = "\
Examples:
  herma import hermes ~/.hermes/state.db

Their ids keep working: what was said goes on in Herma under every name it had. `herma import hermes --help` says \
more.";

const HERMES_HELP: &str = "\
Examples:
  herma import hermes ~/.hermes/state.db             bring everything in
  herma import hermes ~/.hermes/state.db             again: only what is new since
  herma import hermes state.db --json | jq .problems what could not be brought as it was

The database is only read, and Hermes may be running. Every id of Hermes leads to its conversation afterwards: \
sessions that were compressed into each other are one conversation, branches and delegated work name their parents, \
and what was said before a compression stays readable. Slugs and response ids come from response_store.db beside it.

If an import stops, run it again; nothing is brought twice. A conversation that has \
gone on in Herma is left alone. What could not be brought as it was is said, with session and row. docs/IMPORT.md \
has the details.";

/// Flags of `import hermes`.
#[derive(Args)]
pub(crate) struct HermesFlags {
    /// Hermes' database, often ~/.hermes/state.db
    #[arg(value_name = "STATE_DB")]
    pub(crate) state: PathBuf,
    /// Its store of responses, for their names [default: response_store.db beside the database, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) responses: Option<PathBuf>,
    /// Tenant whose conversations they become
    #[arg(long, value_name = "NAME", value_parser = tenant, default_value = DEFAULT_TENANT)]
    pub(crate) tenant: String,
    /// Print a report as JSON in place of text
    #[arg(long)]
    pub(crate) json: bool,
}

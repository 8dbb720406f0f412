//! `herma memory`: one file per verb. They work on the local store and need no server.

mod add;
mod forget;
mod list;

use std::process::ExitCode;

use crate::arguments::{Common, MemoryCommand};
use crate::sessions::local_store;

/// Runs a verb.
pub(crate) fn run(common: Common, command: MemoryCommand) -> anyhow::Result<ExitCode> {
    match command {
        MemoryCommand::List(flags) => {
            local_store::on_memories(common, &flags.shared.tenant, async |memories| list::print(memories, &flags).await)
        }
        MemoryCommand::Add(flags) => {
            local_store::on_memories(common, &flags.shared.tenant, async |memories| add::run(memories, &flags).await)
        }
        MemoryCommand::Forget(flags) => {
            local_store::on_memories(common, &flags.shared.tenant, async |memories| forget::run(memories, &flags).await)
        }
    }
}

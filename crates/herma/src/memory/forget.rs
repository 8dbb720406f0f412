//! `herma memory forget`: forgets a fact.

use herma_gateway::Memories;
use herma_wire::resource::ForgottenMemory;

use crate::arguments::MemoryForgetFlags;
use crate::output;

/// Forgets the fact.
pub(super) async fn run(memories: &Memories<'_>, flags: &MemoryForgetFlags) -> anyhow::Result<()> {
    let id = flags.id;
    memories.forget(id).await?;
    if flags.shared.json {
        output::answer(&serde_json::to_string(&ForgottenMemory::One { id, deleted: true })?)?;
    } else {
        output::note(&format!("{id} is forgotten"));
    }
    Ok(())
}

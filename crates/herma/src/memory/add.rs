//! `herma memory add`: adds a fact about a session key.

use herma_gateway::Memories;
use herma_model::MemorySource;
use herma_wire::resource::MemoryRow;

use crate::arguments::MemoryAddFlags;
use crate::output;

/// Adds the fact and prints its id.
pub(super) async fn run(memories: &Memories<'_>, flags: &MemoryAddFlags) -> anyhow::Result<()> {
    let added = memories.add(flags.session_key.clone(), &flags.text, MemorySource::Api, None).await?;
    let printed = match flags.shared.json {
        true => serde_json::to_string(&MemoryRow(&added))?,
        false => added.id.to_string(),
    };
    output::answer(&printed)?;
    Ok(())
}

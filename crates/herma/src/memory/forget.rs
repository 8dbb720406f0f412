//! `herma memory forget`: forgets a fact, named by its short id, its id, or a unique beginning of it.

use anyhow::bail;
use herma_gateway::{Memories, now};
use herma_model::MemoryId;
use herma_model::limits::MAX_PAGE;
use herma_wire::resource::ForgottenMemory;

use super::list::as_table;
use crate::arguments::MemoryForgetFlags;
use crate::terminal::Stream;
use crate::{output, short_id};

/// Forgets the fact.
pub(super) async fn run(memories: &Memories<'_>, flags: &MemoryForgetFlags) -> anyhow::Result<()> {
    let id = find(memories, &flags.id).await?;
    memories.forget(id).await?;
    if flags.shared.json {
        output::answer(&serde_json::to_string(&ForgottenMemory::One { id, deleted: true })?)?;
    } else {
        output::note(&format!("{id} is forgotten"));
    }
    Ok(())
}

/// The only fact that is named so. A whole id is not looked for, so that forgetting says whether it is there.
async fn find(memories: &Memories<'_>, typed: &str) -> anyhow::Result<MemoryId> {
    if let Ok(id) = typed.parse() {
        return Ok(id);
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = memories.list(None, after, MAX_PAGE).await?;
        found.extend(page.memories.into_iter().filter(|memory| short_id::names(typed, memory.id)));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    match found.as_slice() {
        [memory] => Ok(memory.id),
        [] => bail!("no fact is known by {typed:?}; `herma memory list` shows them"),
        _ => {
            bail!("several facts fit {typed}, and nothing was forgotten:\n{}", as_table(&found, now(), Stream::Stderr))
        }
    }
}

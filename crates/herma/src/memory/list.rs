//! `herma memory list`: one row per fact, newest first.

use herma_gateway::{Memories, now};
use herma_model::limits::MAX_PAGE;
use herma_model::{Memory, Timestamp};
use herma_wire::resource::MemoryRow;

use crate::arguments::MemoryListFlags;
use crate::table::Table;
use crate::terminal::Stream;
use crate::{excerpt, output, short_id, table};

/// The most characters of a text and of a session key.
const TEXT: usize = 60;
const KEY: usize = 32;

/// Prints the requested facts.
pub(super) async fn print(memories: &Memories<'_>, flags: &MemoryListFlags) -> anyhow::Result<()> {
    let most = if flags.all { usize::MAX } else { flags.limit };
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let limit = MAX_PAGE.min(most - rows.len());
        let page = memories.list(flags.session_key.clone(), after, limit).await?;
        rows.extend(page.memories);
        after = page.next;
        if after.is_none() || rows.len() >= most {
            break;
        }
    }
    if flags.shared.json {
        for memory in &rows {
            output::answer(&serde_json::to_string(&MemoryRow(memory))?)?;
        }
    } else if !rows.is_empty() {
        output::answer(&as_table(&rows, now(), Stream::Stdout))?;
    }
    if rows.is_empty() {
        output::note("no fact is remembered; add one with `herma memory add`");
    } else if after.is_some() {
        output::note("there are more; --all lists every one");
    }
    Ok(())
}

/// The facts as a table.
pub(super) fn as_table(memories: &[Memory], now: Timestamp, stream: Stream) -> String {
    let rows: Vec<_> = memories.iter().map(|memory| cells(memory, now)).collect();
    Table::new(["ID", "SESSION KEY", "TEXT", "SOURCE", "AGE"])
        .cutting("SESSION KEY")
        .cutting("TEXT")
        .sparing("SOURCE")
        .sparing("AGE")
        .sparing("SESSION KEY")
        .layout(&rows, stream)
}

fn cells(memory: &Memory, now: Timestamp) -> [String; 5] {
    [
        short_id::of(memory.id),
        excerpt::line(memory.session_key.as_str(), KEY),
        excerpt::line(&memory.text, TEXT),
        memory.source.as_str().to_owned(),
        table::age(memory.created_at, now),
    ]
}

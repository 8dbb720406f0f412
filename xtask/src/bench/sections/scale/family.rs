//! The lineage graph of a conversation with ten thousand descendants.

use std::io;
use std::time::Instant;

use super::landmarks::NODES;
use super::large_store::LargeStore;
use crate::bench::load;
use crate::bench::options::Options;
use crate::bench::sections::talk::Client;
use crate::bench::table::Table;

/// Reads the whole graph page by page, then measures single pages.
pub(super) async fn run(large_store: &LargeStore, client: &mut Client<'_>, options: &Options) -> io::Result<()> {
    let path = format!("/api/sessions/{}/lineage?limit=200", large_store.description.landmarks.eldest);
    let began = Instant::now();
    let (mut pages, mut nodes) = (vec![load::get(&path)], 0);
    loop {
        let page = client.answer(&pages[pages.len() - 1]).await?;
        nodes += page["nodes"].as_array().map_or(0, Vec::len);
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        pages.push(load::get(&format!("{path}&cursor={cursor}")));
    }
    let whole = began.elapsed();
    if nodes != NODES {
        return Err(io::Error::other(format!("the family has {nodes} nodes")));
    }
    println!("The graph around a conversation with {NODES} nodes, pages of 200:\n");
    let mut table = Table::new(["pages", "p50", "p99", "CPU of a page", "all of it"]);
    let begin = client.block(&pages[..1], options.pages() / 2).await?;
    let all = client.block(&pages, options.pages().max(pages.len())).await?;
    for (what, block, whole) in [("the first", begin, None), ("all of them", all, Some(whole))] {
        table.row([
            what.to_owned(),
            format!("{:.2} ms", block.p50()),
            format!("{:.2} ms", block.p99()),
            format!("{:.0} µs", block.cpu()),
            whole.map_or_else(String::new, |whole| format!("{:.0} ms", whole.as_secs_f64() * 1e3)),
        ]);
    }
    table.print();
    println!();
    Ok(())
}

//! A large store, as after years of use: a million conversations and ten million messages, written directly to the
//! file.
//!
//! - [`large_store`]: the store. [`original`], [`copies`], [`columns`], [`words`], [`landmarks`]: its parts.
//! - [`lists`], [`resolve`], [`searches`], [`family`]: reads over HTTP.
//! - [`turns`]: writes, compared with an empty store.
//! - [`imports`]: imports from Hermes.

mod columns;
mod copies;
mod family;
mod hermes;
mod imports;
mod landmarks;
mod large_store;
mod lists;
mod original;
mod resolve;
mod searches;
mod turns;
mod words;

use std::io;

use self::large_store::{LargeStore, StoreDescription};
use crate::bench::options::Options;
use crate::bench::sections::talk::Client;
use crate::bench::table::{Table, at_most};
use crate::bench::testbed::Testbed;

/// Bytes of the database, as a multiple of what was said.
const STORED_GOAL: f64 = 4.0;
/// Nothing is compacted by itself while it is measured.
const WINDOW: [(&str, &str); 1] = [("HERMA_CONTEXT_WINDOW", "1000000")];

/// Measures Herma alone: what is compared are sizes, depths and its own turns.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    if !options.has_herma() {
        println!("Nothing to measure without Herma.");
        return Ok(());
    }
    let testbed = Testbed::start(&[])?;
    let large_store = LargeStore::prepare(&testbed, options).await?;
    stored(&large_store.description);
    {
        let herma = testbed.launch_herma_on(&large_store.directory, &WINDOW)?;
        let mut client = Client::connect(&herma).await?;
        resolve::check(&mut client, large_store.description.conversations).await?;
        lists::run(&large_store, &mut client, options).await?;
        resolve::run(&large_store, &mut client, options).await?;
        searches::run(&large_store, &mut client, options).await?;
        family::run(&large_store, &mut client, options).await?;
    }
    turns::run(&testbed, &large_store, options).await?;
    imports::run(&testbed, options)
}

fn stored(description: &StoreDescription) {
    let StoreDescription { conversations, messages, text, bytes, seconds, .. } = description;
    let per_message = |bytes: u64| bytes as f64 / *messages as f64;
    println!(
        "{conversations} conversations, {messages} messages of {:.0} bytes on average, and what is there once.\n",
        per_message(*text)
    );
    let mut table = Table::new(["what", "messages a second", "bytes a message", "bytes / text"]);
    let ratio = |bytes: u64| bytes as f64 / *text as f64;
    let rate = |seconds: f64| format!("{:.0}", *messages as f64 / seconds);
    let rows = [rate(seconds[0]), format!("{:.0}", per_message(bytes[0])), format!("{:.2}", ratio(bytes[0]))];
    let index = [rate(seconds[1]), format!("{:.0}", per_message(bytes[1])), at_most(ratio(bytes[1]), STORED_GOAL, "")];
    table.row(["rows, written in bulk".to_owned()].into_iter().chain(rows));
    table.row(["indexed for search by the store, and both together".to_owned()].into_iter().chain(index));
    table.print();
    println!();
}

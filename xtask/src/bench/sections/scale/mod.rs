//! A large store, as after years of use: a million conversations and ten million messages, written directly to the
//! file.
//!
//! - [`stock`]: the store. [`original`], [`copies`], [`columns`], [`words`], [`landmarks`]: its parts.
//! - [`lists`], [`resolve`], [`searches`], [`family`]: reads over HTTP.
//! - [`turns`]: writes, compared with an empty store.
//! - [`imports`]: imports from Hermes.

mod columns;
mod copies;
mod family;
mod hermes;
mod imports;
mod landmarks;
mod lists;
mod original;
mod resolve;
mod searches;
mod stock;
mod turns;
mod words;

use std::io;

use self::stock::{About, Stock};
use crate::bench::field::Field;
use crate::bench::options::Options;
use crate::bench::sections::talk::Client;
use crate::bench::table::{Table, at_most};

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
    let field = Field::start(&[])?;
    let stock = Stock::prepare(&field, options).await?;
    stored(&stock.about);
    {
        let herma = field.launch_herma_on(&stock.directory, &WINDOW)?;
        let mut client = Client::connect(&herma).await?;
        resolve::check(&mut client, stock.about.conversations).await?;
        lists::run(&stock, &mut client, options).await?;
        resolve::run(&stock, &mut client, options).await?;
        searches::run(&stock, &mut client, options).await?;
        family::run(&stock, &mut client, options).await?;
    }
    turns::run(&field, &stock, options).await?;
    imports::run(&field, options)
}

fn stored(about: &About) {
    let About { conversations, messages, text, bytes, seconds, .. } = about;
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

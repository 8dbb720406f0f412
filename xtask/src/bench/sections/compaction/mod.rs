//! What compactions cost the turns after them.
//!
//! - [`splits`]: conversations that were split once compared with those that were split a hundred times.
//! - [`long_conversations`]: late turns of long conversations compared with early ones, with automatic compaction.

mod long_conversations;
mod splits;

use std::io;

use crate::bench::options::Options;
use crate::bench::testbed::Testbed;

/// Measures only Herma: its own turns are compared.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    if !options.has_herma() {
        println!("Nothing to compare without Herma.");
        return Ok(());
    }
    let testbed = Testbed::start(&[])?;
    splits::run(&testbed, options).await?;
    println!();
    long_conversations::run(&testbed, options).await
}

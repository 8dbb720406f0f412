//! What compactions cost the turns after them.
//!
//! - [`splits`]: conversations that were split once compared with those that were split a hundred times.
//! - [`life`]: late turns of a long conversation compared with early ones, with automatic compaction.

mod life;
mod splits;

use std::io;

use crate::bench::field::Field;
use crate::bench::options::Options;

/// Measures only Herma: its own turns are compared.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    if !options.has_herma() {
        println!("Nothing to compare without Herma.");
        return Ok(());
    }
    let field = Field::start(&[])?;
    splits::run(&field, options).await?;
    println!();
    life::run(&field, options).await
}

//! What compactions cost the turns after them.
//!
//! - [`splits`]: conversations that were split once beside those that were split a hundred times.
//! - [`life`]: the thousandth turn beside the tenth, compacting by themselves about every twenty turns.

mod life;
mod splits;

use std::io;

use crate::bench::field::Field;
use crate::bench::options::Options;

/// Measures both on Herma alone: what is compared are its own turns.
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

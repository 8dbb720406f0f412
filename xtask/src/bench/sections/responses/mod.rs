//! What a turn costs that is asked for as a response, beside the same turn as a chat completion.
//!
//! - [`rates`]: turns of a slug and turns chained by the response before, whole and streamed.
//! - [`stored`]: bytes that a turn leaves in the database, early and late in a conversation.
//! - [`reads`]: a stored response of a long conversation beside one of a short one.

mod rates;
mod reads;
mod stored;

use std::io;

use crate::bench::field::{Field, Target};
use crate::bench::options::Options;

/// Measures all three on Herma alone: what is compared are its own turns.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    if !options.has_herma() {
        println!("Nothing to compare without Herma.");
        return Ok(());
    }
    let field = Field::start(&[Target::Herma])?;
    rates::run(&field, options).await?;
    println!();
    stored::run(&field, options).await?;
    println!();
    reads::run(&field, options).await
}

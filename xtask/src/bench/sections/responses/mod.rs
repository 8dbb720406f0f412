//! What a turn costs as a response, compared with the same turn as a chat completion.
//!
//! - [`rates`]: turns that name a slug and turns that name the previous response, whole and streamed.
//! - [`stored`]: bytes that a turn adds to the database, early and late in a conversation.
//! - [`reads`]: reading a stored response in a long conversation, compared with a short one.

mod rates;
mod reads;
mod stored;

use std::io;

use crate::bench::options::Options;
use crate::bench::testbed::{Target, Testbed};

/// Measures only Herma: its own turns are compared.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    if !options.has_herma() {
        println!("Nothing to compare without Herma.");
        return Ok(());
    }
    let testbed = Testbed::start(&[Target::Herma])?;
    rates::run(&testbed, options).await?;
    println!();
    stored::run(&testbed, options).await?;
    println!();
    reads::run(&testbed, options).await
}

//! Searches for rare words, for common words, and for parts of words.

use std::io;

use super::large_store::LargeStore;
use super::words::{self, RARE, sign, word};
use crate::bench::load;
use crate::bench::options::Options;
use crate::bench::sections::talk::Client;
use crate::bench::table::{Table, at_most};

/// The goal for the p99 of a search, in milliseconds.
const GOAL: f64 = 50.0;
/// The goal for the p50 of a word that ends with a number, as a multiple of a rare word's.
const NUMBERED_GOAL: f64 = 2.0;
const RARE_WORD: &str = "a rare word";
const NUMBERED_WORD: &str = "a common word with a number";
/// Different queries of each kind.
const QUERIES: u64 = 10;

/// Measures every kind of query.
pub(super) async fn run(large_store: &LargeStore, client: &mut Client<'_>, options: &Options) -> io::Result<()> {
    let rare = (large_store.description.messages / RARE / 2).max(1);
    let kinds: [(&str, &dyn Fn(u64) -> String); 9] = [
        (RARE_WORD, &|number| words::rare(1 + number % rare)),
        (NUMBERED_WORD, &|number| words::topic(120 + number)),
        ("a part of several such words", &|number| words::topic(11 + number)[1..].to_owned()),
        ("a common word", &word),
        ("two common words", &|number| format!("{} {}", word(number), word(number + 20))),
        ("a phrase", &|number| format!("\"{} {}\"", word(number), word(0))),
        ("a prefix", &|number| format!("{}*", &word(1_000 + number)[..3])),
        ("part of a word", &|number| word(1_000 + number)[1..].to_owned()),
        ("two signs of a script without spaces", &|number| [sign(number), sign(0)].iter().collect()),
    ];
    println!("Pages of `GET /api/search`, one client, {QUERIES} queries of each kind:\n");
    let mut table = Table::new(["for", "hits on the pages", "p50", "p50 / a rare word's", "p99", "CPU"]);
    let mut of_rare_word = f64::NAN;
    // A small store may have no rare word.
    let without = usize::from(large_store.description.messages < 2 * RARE);
    for (what, query) in kinds.into_iter().skip(without) {
        let queries = (0..QUERIES).map(|number| load::get(&format!("/api/search?q={}", encoded(&query(number)))));
        let queries: Vec<_> = queries.collect();
        let mut hits = 0;
        for query in &queries {
            hits += client.answer(query).await?["data"].as_array().map_or(0, Vec::len);
        }
        if hits == 0 {
            return Err(io::Error::other(format!("{what} is nowhere: {}", query(0))));
        }
        let block = client.block(&queries, options.pages()).await?;
        if what == RARE_WORD {
            of_rare_word = block.p50();
        }
        let ratio = block.p50() / of_rare_word;
        table.row([
            what.to_owned(),
            hits.to_string(),
            format!("{:.2} ms", block.p50()),
            if what == NUMBERED_WORD { at_most(ratio, NUMBERED_GOAL, "") } else { format!("{ratio:.2}") },
            at_most(block.p99(), GOAL, " ms"),
            format!("{:.0} µs", block.cpu()),
        ]);
    }
    table.print();
    println!();
    Ok(())
}

/// The percent-encoded form of a text.
fn encoded(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_but_letters_are_encoded() {
        assert_eq!(encoded("\"a 1\"*一"), "%22a%201%22%2A%E4%B8%80");
    }
}

//! Finds what is remembered about a session key.
//!
//! Every word is looked up by itself, under the term of the key, newest rows first. A row's score is the sum of the
//! weights of the words that led to it, and a word that leads to few rows weighs more. So no text is read before the
//! best rows are known, and the cost does not grow with the size of the memory.
//!
//! - [`rank`]: which rows are best.
//! - [`lookups`]: the rows of a word, facts and messages, from memory or from the database.
//! - [`known`]: what was looked up for one key. [`cache`] keeps it as long as the key's version stays the same.
//! - [`said`]: lists of messages. [`feed`] adds to them what this process indexes.

mod cache;
mod feed;
mod known;
mod lookups;
mod rank;
mod said;

pub(crate) use cache::RecallCache;
pub(crate) use feed::{IndexedMessage, Written};

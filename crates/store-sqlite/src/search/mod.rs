//! Full text in SQLite.
//!
//! One FTS5 table that stores no text has, for every message and title, the terms by which it can be found (`terms`): words, single letters and pairs of
//! letters of scripts without spaces, groups of three letters for parts of words, beginnings, its tenant and its conversation. What the index
//! yields is a candidate; whether it is a hit, its text says (`candidates`, `look`, and `inheriting` for what is only inherited). The index is written behind the turns (`indexer`), and what it does not have yet is
//! looked at as it is.

mod candidates;
pub(crate) mod indexer;
mod inheriting;
mod look;
mod page;
mod terms;

pub(crate) use page::{newest, page};

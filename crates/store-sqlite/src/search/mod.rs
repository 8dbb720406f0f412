//! Full-text search in SQLite.
//!
//! One FTS5 table holds the terms (`terms`) of every message and title, but no text. There are these terms:
//!
//! - words, and beginnings of words;
//! - groups of three letters, to find parts of words;
//! - single characters and pairs of characters of scripts without spaces;
//! - the tenant, the conversation and its session key.
//!
//! Of words that many messages have (`common`), the parts are left out.
//!
//! The index yields candidates (`candidates`, with the query of `asked`). The text of a candidate decides whether it is
//! a hit (`matcher`, and `inheriting` for messages of deleted conversations). The index is written after the turns:
//! `indexer` says when, `batch` reads rows and makes their terms, `write` writes them. Messages that are not indexed
//! yet are searched directly.

mod asked;
pub(crate) mod batch;
mod candidates;
pub(crate) mod common;
pub(crate) mod indexer;
mod inheriting;
mod matcher;
mod page;
#[cfg(test)]
mod random;
pub(crate) mod terms;
mod write;

pub(crate) use page::{newest, page};
pub(crate) use write::write;

//! The [`herma_store::Store`] port on one SQLite file.
//!
//! - One write connection (`writer`) commits all queued jobs as one transaction. One sync thread makes the commits
//!   durable afterwards, so an admission never waits for another turn's `fsync`. Readers have connections of their own.
//! - Any number of processes may use the file at once. Each holds a lock file named by its instance (`instance`). A
//!   lease is dead if its owner's lock can be taken, or if this process has watched it stay unrenewed for 10 s.
//! - `renewals` tells when the leases of this process were last renewed; `counts`, for benchmarks, counts statements.
//! - Each operation has one file: a function in the caller's transaction. [`hermes`] reads the files of Hermes.

mod admissions;
mod admit;
mod approvals;
mod attempt;
mod backup;
mod base;
mod branch;
mod commit;
mod compact;
mod conversation;
mod copy;
#[cfg(feature = "counts")]
pub mod counts;
mod current;
mod delegates;
mod deliveries;
mod describe;
mod engine;
mod erase;
mod events;
mod expiry;
mod failure;
mod family;
mod grants;
pub mod hermes;
mod histories;
mod import;
mod instance;
mod keys;
mod ledger;
mod lineage;
mod list;
mod listing;
mod lookups;
mod maintenance;
mod memories;
mod messages;
mod migrations;
mod notices;
mod open;
mod outbox;
mod parent;
mod park;
mod pins;
mod point;
mod queue;
mod ranges;
mod readers;
mod remember;
mod renewals;
mod retract;
mod retry;
mod rewind;
mod rewinds;
mod rewrite;
mod rows;
mod search;
mod snapshot;
mod stop;
mod sync;
mod tables;
mod takeover;
mod title;
mod transcript;
mod turns;
mod undo;
mod usage;
mod waiting;
mod writer;

pub use engine::SqliteStore;

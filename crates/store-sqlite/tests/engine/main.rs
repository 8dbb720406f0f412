//! Tests of the whole SQLite engine: the port's contract, and effects of files and other processes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests say what is wrong by panicking")]

mod admissions;
mod child;
mod copies;
mod crashes;
mod database;
mod deletion;
mod disk;
mod files;
mod lineage;
mod migrations;
mod processes;
mod search;
mod sequences;
mod start_up;

mod contract {
    //! The contract suite of the port.
    herma_store::contract_suite!(crate::database::Database::new());
}

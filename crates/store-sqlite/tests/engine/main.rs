//! The SQLite engine as a whole: the port's contract, and what only a file and other processes can do to it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests say what is wrong by panicking")]

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

mod contract {
    //! Everything that the port promises.
    herma_store::contract_suite!(crate::database::Database::new());
}

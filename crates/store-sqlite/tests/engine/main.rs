//! The SQLite engine as a whole: the port's contract, and what only a file and other processes can do to it.

mod database;

mod contract {
    //! Everything that the port promises.
    herma_store::contract_suite!(crate::database::Database::new());
}

//! Turns whose answers were delivered, until that is written.
//!
//! The mark of a delivery is in the row of the turn. To write it with the admission of the next turn would cost a page
//! that this transaction does not write otherwise. So it is written with the next transaction that is more than an
//! admission: usually the commit of that turn, at the latest the next sweep. A crash before that loses the mark. Then a
//! retry of the request gets the same answer again.

use herma_model::{TenantId, TurnId};
use rusqlite::{Connection, params};

use crate::admissions;
use crate::failure::{StoreResult, Translate};

/// Deliveries of this process.
#[derive(Default)]
pub(crate) struct Deliveries {
    noted: Vec<(TenantId, TurnId)>,
    /// Those that the current transaction has written. A rollback brings them back.
    written: Vec<(TenantId, TurnId)>,
    /// Whether the current transaction admits a turn.
    has_admission: bool,
    /// Whether the current transaction is more than an admission.
    is_due: bool,
}

impl Deliveries {
    /// Notes that a turn's answer was delivered completely.
    pub(crate) fn add(&mut self, tenant: TenantId, turn: TurnId) {
        self.noted.push((tenant, turn));
    }

    /// Called if the current transaction admits a turn with one row.
    pub(crate) fn note_admission(&mut self) {
        self.has_admission = true;
    }

    /// Called if the current transaction is more than an admission.
    pub(crate) fn note_other_write(&mut self) {
        self.is_due = true;
    }

    /// Writes them unless the current transaction is only an admission. Called before its commit.
    pub(crate) fn write_if_due(&mut self, connection: &Connection) -> StoreResult<()> {
        if self.is_due || !self.has_admission { self.write(connection) } else { Ok(()) }
    }

    /// Writes them.
    pub(crate) fn write(&mut self, connection: &Connection) -> StoreResult<()> {
        if self.noted.is_empty() {
            return Ok(());
        }
        let mut update = connection
            .prepare_cached("UPDATE turns SET delivered = 1 WHERE id = ?1 AND tenant_pk = ?2")
            .translated()?;
        for (tenant, turn) in &self.noted {
            let mut mark = || update.execute(params![turn.uuid().as_bytes(), tenant.0]).translated();
            if mark()? == 0 && admissions::is_any(connection)? {
                admissions::write_out_all(connection)?;
                mark()?;
            }
        }
        self.written.append(&mut self.noted);
        Ok(())
    }

    /// Makes what was written final, because it was committed.
    pub(crate) fn settle(&mut self) {
        self.written.clear();
        (self.has_admission, self.is_due) = (false, false);
    }

    /// Takes back what was written, because it was rolled back.
    pub(crate) fn undo(&mut self) {
        self.has_admission = false;
        self.noted.append(&mut self.written);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    /// A database with one turn, and its delivery.
    fn delivered() -> (Connection, Deliveries) {
        let connection = Connection::open_in_memory().unwrap();
        connection
            .execute_batch(
                "CREATE TABLE turns (id, tenant_pk, delivered);
                 INSERT INTO turns VALUES (zeroblob(16), 1, 0)",
            )
            .unwrap();
        let mut deliveries = Deliveries::default();
        deliveries.add(TenantId(1), TurnId::from_uuid(Uuid::nil()));
        (connection, deliveries)
    }

    fn is_marked(connection: &Connection) -> bool {
        connection.query_row("SELECT delivered FROM turns", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_delivery_waits_while_turns_are_only_admitted() {
        let (connection, mut deliveries) = delivered();
        deliveries.note_admission();
        deliveries.write_if_due(&connection).unwrap();
        assert!(!is_marked(&connection));
        deliveries.settle();
        deliveries.note_admission();
        deliveries.note_other_write();
        deliveries.write_if_due(&connection).unwrap();
        assert!(is_marked(&connection));
    }

    #[test]
    fn a_delivery_is_written_at_once_without_an_admission() {
        let (connection, mut deliveries) = delivered();
        deliveries.write_if_due(&connection).unwrap();
        assert!(is_marked(&connection));
    }

    #[test]
    fn a_delivery_that_was_rolled_back_is_written_again() {
        let (mut connection, mut deliveries) = delivered();
        let transaction = connection.transaction().unwrap();
        deliveries.write(&transaction).unwrap();
        transaction.rollback().unwrap();
        deliveries.undo();
        assert!(!is_marked(&connection));
        deliveries.write_if_due(&connection).unwrap();
        assert!(is_marked(&connection));
    }
}

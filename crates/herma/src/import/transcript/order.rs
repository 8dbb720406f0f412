//! Assigns each row of a chain to a session.
//!
//! A client that does not know of a new session goes on in the old one, and Hermes stores its messages there. In Herma
//! an old id leads to the head. So such a row belongs to the session that was the head when it was written.

use herma_store_sqlite::hermes::{HermesMessage, HermesSession};

/// A row at its place in the chain.
pub(super) struct PlacedRow<'a> {
    pub(super) row: &'a HermesMessage,
    /// The session in which Hermes stores it.
    pub(super) session: &'a str,
    /// Whether that session had already been continued by another one.
    pub(super) is_late: bool,
}

/// The rows of each session of a chain, in the order in which they were written.
pub(super) fn assign(chain: &[(HermesSession, Vec<HermesMessage>)]) -> Vec<Vec<PlacedRow<'_>>> {
    let mut placed: Vec<Vec<PlacedRow<'_>>> = chain.iter().map(|_| Vec::new()).collect();
    for (own, (session, rows)) in chain.iter().enumerate() {
        for row in rows {
            let later = chain[own + 1..].iter().take_while(|next| was_there(next, row)).count();
            placed[own + later].push(PlacedRow { row, session: &session.id, is_late: later > 0 });
        }
    }
    for rows in &mut placed {
        rows.sort_by_key(|placed| placed.row.row);
    }
    placed
}

/// Whether a session had begun and had a row before this row was written.
fn was_there((session, rows): &(HermesSession, Vec<HermesMessage>), row: &HermesMessage) -> bool {
    let written = rows.first().is_some_and(|first| first.row < row.row);
    written && session.started_at.zip(row.timestamp).is_some_and(|(began, said)| said > began)
}

//! In which session each row of a chain belongs.
//!
//! Clients that were not told of a new session go on with the old one, and Hermes writes what they say there. Here an old id leads to the head:
//! such rows belong in the session that was the head when they were written.

use herma_store_sqlite::hermes::{HermesMessage, HermesSession};

/// A row, in its order.
pub(super) struct Placed<'a> {
    pub(super) row: &'a HermesMessage,
    /// The session that Hermes has it in.
    pub(super) session: &'a str,
    /// Whether that one had gone on in another already.
    pub(super) is_late: bool,
}

/// The rows of each session of a chain.
pub(super) fn place(chain: &[(HermesSession, Vec<HermesMessage>)]) -> Vec<Vec<Placed<'_>>> {
    let mut placed: Vec<Vec<Placed<'_>>> = chain.iter().map(|_| Vec::new()).collect();
    for (own, (session, rows)) in chain.iter().enumerate() {
        for row in rows {
            let later = chain[own + 1..].iter().take_while(|next| was_there(next, row)).count();
            placed[own + later].push(Placed { row, session: &session.id, is_late: later > 0 });
        }
    }
    for rows in &mut placed {
        rows.sort_by_key(|placed| placed.row.row);
    }
    placed
}

/// Whether a session had begun, and something been written into it, when a row was written.
fn was_there((session, rows): &(HermesSession, Vec<HermesMessage>), row: &HermesMessage) -> bool {
    let written = rows.first().is_some_and(|first| first.row < row.row);
    written && session.started_at.zip(row.timestamp).is_some_and(|(began, said)| said > began)
}

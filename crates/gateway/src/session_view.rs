//! The session of a turn, and the `session` object that every answer of a turn carries.

use std::sync::Arc;

use herma_model::Provenance;
use herma_store::TurnRecord;
use herma_wire::session::SessionObject;

use crate::log::SessionView;

impl SessionView {
    /// The session of a stored turn. `requested` is the name that the request used for it.
    pub fn of(record: &TurnRecord, requested: Option<Arc<str>>) -> Self {
        Self {
            facts: Arc::clone(&record.facts),
            requested,
            resolution: record.resolution,
            rotated: record.rotated,
            revision: None,
        }
    }
}

/// The `session` object of an answer.
pub fn session_object(session: &SessionView) -> SessionObject {
    let facts = &session.facts;
    SessionObject {
        conversation_id: facts.id,
        session_id: facts.head.id.clone(),
        requested_id: session.requested.as_ref().map(ToString::to_string),
        resolution: session.resolution,
        rotated: session.rotated,
        provenance: Provenance::of(facts, &facts.head),
    }
}

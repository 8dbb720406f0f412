//! `/api/sessions/{alias}/compactions`: lists compactions, compacts now, undoes a compaction.

mod create;
mod list;
mod undo;

use axum::response::{IntoResponse, Response};
use herma_model::Provenance;
use herma_store::Compacted;
use herma_wire::resource::CompactionRow;

use crate::json::Json;
use crate::revision;

pub(crate) use create::create;
pub(crate) use list::list;
pub(crate) use undo::undo;

/// The new row of the ledger, with the head after it.
fn answer(done: &Compacted) -> Response {
    let session = Provenance::of(&done.facts, &done.facts.head);
    let mut response = Json(CompactionRow::from(&done.record).led_to(session)).into_response();
    revision::insert_etag(response.headers_mut(), done.facts.id, done.revision);
    response
}

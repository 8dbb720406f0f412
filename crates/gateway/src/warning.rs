//! Warnings to the operator when a model server fails. Message text never goes into the log.

use herma_model::ModelFailure;
use herma_upstream::ModelServer;

use crate::spans::Traced;

/// Warns that a call of a model server failed, and for which model and conversation.
pub(crate) fn model_call_failed(failure: &ModelFailure, server: &dyn ModelServer, model: &str, at: &Traced<'_>) {
    tracing::warn!(
        conversation = at.conversation.map(tracing::field::display),
        server = server.describe(),
        model,
        status = failure.status,
        why = %failure.for_log(),
        trace_id = at.trace.id().map(tracing::field::display),
        "a call of the model server failed"
    );
}

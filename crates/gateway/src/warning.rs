//! Warnings to the operator when a model server fails. Message text never goes into the log.

use herma_model::{ConversationId, ModelFailure};
use herma_upstream::ModelServer;

/// Warns that a call of a model server failed, and for which model and conversation.
pub(crate) fn model_call_failed(
    failure: &ModelFailure,
    server: &dyn ModelServer,
    model: &str,
    conversation: Option<ConversationId>,
) {
    tracing::warn!(
        conversation = conversation.map(tracing::field::display),
        server = server.describe(),
        model,
        status = failure.status,
        why = %failure.for_log(),
        "a call of the model server failed"
    );
}

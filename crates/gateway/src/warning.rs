//! Warnings to the operator when a model server fails. Message text never goes into the log.

use herma_model::{ConversationId, ModelFailure};

/// Warns that a call of the model server failed, and for which model and conversation.
pub fn model_call_failed(failure: &ModelFailure, model: &str, conversation: Option<ConversationId>) {
    tracing::warn!(
        conversation = conversation.map(tracing::field::display),
        model,
        status = failure.status,
        why = %failure.for_log(),
        "a call of the model server failed"
    );
}

//! What clients are told of a request that got no lease.

use herma_model::TurnFailure;
use herma_model::turn::FailureCode;
use herma_store::Refusal;

use crate::error::{Conflict, GatewayError, InvalidRequest, KeyProblem};

/// The failure that clients are told after a panic.
pub(crate) fn defect() -> TurnFailure {
    TurnFailure::new(FailureCode::Internal, "the gateway failed; the turn was given up")
}

/// The failure that is stored for a queued turn that gives up before it begins.
pub(super) fn given_up(error: &GatewayError) -> TurnFailure {
    match error {
        GatewayError::Turn(failure) => failure.clone(),
        GatewayError::Draining => TurnFailure::new(
            FailureCode::Abandoned,
            "the gateway was stopped before the turn began; send the request again",
        ),
        GatewayError::Busy { running, .. } => TurnFailure::new(
            FailureCode::Busy,
            format!("another turn ({running}) of this conversation ran longer than turns wait; send the request again"),
        ),
        refused => TurnFailure::new(FailureCode::Refused, refused.to_string()),
    }
}

pub(crate) fn cancelled() -> GatewayError {
    GatewayError::Turn(TurnFailure::new(FailureCode::Cancelled, "the turn was cancelled"))
}

/// A refusal of the store as an error of the gateway.
pub(super) fn refused(refusal: &Refusal) -> GatewayError {
    match *refusal {
        Refusal::NotFound | Refusal::NotRepeated => GatewayError::unknown(),
        Refusal::NoParent => GatewayError::Invalid(InvalidRequest::NoParent),
        Refusal::Undeclarable(why) => GatewayError::Invalid(InvalidRequest::Undeclarable(why)),
        Refusal::SessionKeyConflict => GatewayError::SessionKey(KeyProblem::Conflict),
        Refusal::Busy(running) => GatewayError::busy(running),
        Refusal::QueueFull { limit } => {
            GatewayError::overloaded(format!("{limit} turns of this conversation wait already, which is the limit"))
        }
        Refusal::IdempotencyMismatch => GatewayError::Conflict(Conflict::IdempotencyMismatch),
        Refusal::Ended => GatewayError::Conflict(Conflict::Ended),
        Refusal::Withdrawn => cancelled(),
    }
}

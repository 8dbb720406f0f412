//! Errors of the gateway as errors of the protocol.
//!
//! The code of the HTTP API is in `data.code`. No error repeats a parameter.

use herma_gateway::{GatewayError, Missing};
use serde_json::json;

use crate::schema::{Error, ErrorCode, SessionId};

/// The parameters of a method have not its form.
pub(crate) fn bad_params(message: &str) -> Error {
    Error::new(ErrorCode::InvalidParams.into(), message)
}

/// There is no such method.
pub(crate) fn unknown_method() -> Error {
    Error::new(ErrorCode::MethodNotFound.into(), "there is no such method")
}

/// The editor does not want the answer any more.
pub(crate) fn request_cancelled() -> Error {
    Error::new(ErrorCode::RequestCancelled.into(), "the request was cancelled")
}

/// A limit of the agent is reached.
pub(crate) fn overloaded(message: &str) -> Error {
    Error::new(ErrorCode::InternalError.into(), message).data(json!({ "code": "overloaded" }))
}

/// A defect of the agent.
pub(crate) fn defect() -> Error {
    let message = "the agent failed; this is a defect of Herma";
    Error::new(ErrorCode::InternalError.into(), message).data(json!({ "code": "internal_error" }))
}

/// No session is known by this id.
pub(crate) fn unknown_session(id: &SessionId) -> Error {
    Error::new(ErrorCode::ResourceNotFound.into(), "no session is known by this id").data(json!({ "sessionId": id }))
}

/// An error of the gateway about a session.
pub(crate) fn of_session(id: &SessionId, error: &GatewayError) -> Error {
    match error {
        GatewayError::NotFound(Missing::Conversation) => unknown_session(id),
        error => of_gateway(error),
    }
}

/// An error of the gateway.
pub(crate) fn of_gateway(error: &GatewayError) -> Error {
    let code = match error {
        GatewayError::Invalid(_) | GatewayError::SessionKey(_) => ErrorCode::InvalidParams,
        GatewayError::NotFound(_) => ErrorCode::ResourceNotFound,
        GatewayError::Busy { .. }
        | GatewayError::Conflict(_)
        | GatewayError::Overloaded(_)
        | GatewayError::Draining
        | GatewayError::Turn(_)
        | GatewayError::CutOff(_) => ErrorCode::InternalError,
        GatewayError::Store(error) => {
            tracing::warn!(%error, "the store failed");
            let message = "the store cannot be used right now; try again";
            return Error::new(ErrorCode::InternalError.into(), message).data(json!({ "code": "store_unavailable" }));
        }
    };
    Error::new(code.into(), error.to_string()).data(json!({ "code": error.code() }))
}

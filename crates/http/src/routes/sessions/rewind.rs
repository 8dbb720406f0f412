//! `POST /api/sessions/{alias}/rewind`: ends the model's view at an earlier message; `…/restore` undoes that.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use herma_gateway::{Field, GatewayError, InvalidRequest};
use herma_model::Principal;
use herma_store::RewindPoint;
use herma_wire::resource::RewindSession;
use http::HeaderMap;

use super::{alias, row_response};
use crate::app::Shared;
use crate::body;
use crate::error::ApiError;
use crate::path::Named;
use crate::revision;

/// Rewinds to a message, or by a number of turns.
pub(crate) async fn rewind(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let alias = alias(&name)?;
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts.headers, body).await?;
    let to = match RewindSession::parse(&body)? {
        RewindSession::To(id) => {
            let unknown = |_| GatewayError::Invalid(InvalidRequest::NoSuchMessage(Field::RewindPoint));
            RewindPoint::Message(id.parse().map_err(unknown)?)
        }
        RewindSession::Turns(turns) => RewindPoint::Turns(turns),
    };
    let sessions = revision::sessions(&app, &principal, &parts.headers)?;
    Ok(row_response(&sessions.rewind(&alias, to).await?))
}

/// Gives the model back the messages that were rewound since the last turn.
pub(crate) async fn restore(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let alias = alias(&name)?;
    let sessions = revision::sessions(&app, &principal, &headers)?;
    Ok(row_response(&sessions.restore_rewound(&alias).await?))
}

//! Names in paths.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

use crate::error::ApiError;

/// The one name in a route's path, decoded. What is not text leads nowhere.
pub(crate) struct Named(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(Self(name)),
            Err(_) => Err(ApiError::not_found("nothing is known by this name: it is not UTF-8")),
        }
    }
}

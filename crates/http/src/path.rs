//! Names in paths.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;

use crate::error::ApiError;

/// The name in a route's path, decoded. A name that is not UTF-8 is answered with 404.
pub(crate) struct Named(pub(crate) String);

/// The two names in a route's path, decoded: that of a conversation, and that of something in it.
pub(crate) struct NamedWithin(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Path::<String>::from_request_parts(parts, state).await.map(|Path(name)| Self(name)).map_err(|_| not_text())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NamedWithin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let names = Path::<(String, String)>::from_request_parts(parts, state).await;
        names.map(|Path((outer, inner))| Self(outer, inner)).map_err(|_| not_text())
    }
}

fn not_text() -> ApiError {
    ApiError::not_found("nothing is known by this name: it is not UTF-8")
}

//! Who calls.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::AUTHORIZATION;

use crate::app::{Authentication, Shared};
use crate::error::ApiError;
use crate::headers;

/// Lets a request through with the principal its key stands for.
pub(crate) async fn require(State(app): State<Shared>, mut request: Request, next: Next) -> Result<Response, ApiError> {
    let principal = match &app.settings.authentication {
        Authentication::Keys(access) => {
            let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
            let secret = given.ok_or_else(ApiError::unauthorized)?;
            access.principal(secret).await?.ok_or_else(ApiError::unauthorized)?
        }
        Authentication::None(principal) => {
            if let Some(name) = headers::names_a_session(request.headers()) {
                return Err(ApiError::headers_need_auth(name));
            }
            principal.clone()
        }
    };
    request.extensions_mut().insert(principal);
    Ok(next.run(request).await)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim()).filter(|key| !key.is_empty())
}

//! JSON answers.

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use serde::Serialize;

/// Any value as a JSON answer.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => from_bytes(bytes),
            Err(error) => {
                tracing::error!(%error, "an answer could not be written as JSON");
                http::StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

/// JSON text as an answer.
pub(crate) fn from_bytes(bytes: Vec<u8>) -> Response {
    let mut response = bytes.into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

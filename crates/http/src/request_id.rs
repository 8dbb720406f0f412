//! The id of each request: the client's own if it sends one, else a new one.

use axum::extract::Request;
use axum::response::Response;
use http::{HeaderName, HeaderValue};
use uuid::Uuid;

/// In a request, the client's id for it. In an answer, that id or ours.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is accepted from a client.
const MAX_LENGTH: usize = 128;

/// The id of a request, for its answer.
pub(crate) struct RequestId(Option<HeaderValue>);

impl RequestId {
    /// Accepts the request's id, or makes one and sets it on the request.
    pub(crate) fn take_over(request: &mut Request) -> Self {
        let usable = |value: &&HeaderValue| !value.is_empty() && value.len() <= MAX_LENGTH && value.to_str().is_ok();
        let given = request.headers().get(REQUEST_ID).filter(usable).cloned();
        if given.is_some() {
            return Self(given);
        }
        let made = HeaderValue::from_str(&format!("req_{}", Uuid::now_v7().simple())).ok();
        if let Some(id) = &made {
            request.headers_mut().insert(REQUEST_ID, id.clone());
        }
        Self(made)
    }

    pub(crate) fn set_on(self, response: &mut Response) {
        if let Some(id) = self.0 {
            response.headers_mut().insert(REQUEST_ID, id);
        }
    }
}

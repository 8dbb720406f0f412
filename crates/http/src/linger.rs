//! Reads the rest of a refused request, so that its client can read the error.
//!
//! A connection that is closed with unread bytes is reset, and the reset can arrive before the answer. Then the client
//! would see a broken connection and not its error. So the rest of the body is read and dropped before an error is
//! sent, within limits.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;

/// The most bytes that are read and dropped. A client that sends more may lose its answer.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// How long reading the rest may take.
const MAX_TIME: Duration = Duration::from_secs(10);
/// How long the client may pause while it sends the rest.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The body of a request whose answer, if it is an error, waits until the whole body was read.
pub(crate) struct UnreadBody(SharedBody);

impl UnreadBody {
    /// Shares the body of a request with its handler. `None` if it has none.
    pub(crate) fn share_with(request: &mut Request) -> Option<Self> {
        if request.body().is_end_stream() {
            return None;
        }
        let shared = Arc::new(Mutex::new(std::mem::take(request.body_mut())));
        *request.body_mut() = Body::new(SharedBody(Arc::clone(&shared)));
        Some(Self(SharedBody(shared)))
    }

    /// Reads the rest before an error is sent. If that takes too long, the error is sent anyway.
    pub(crate) async fn read_before(&mut self, answer: StatusCode) {
        if !answer.is_success() {
            drop(tokio::time::timeout(MAX_TIME, drain(&mut self.0)).await);
        }
    }
}

async fn drain(body: &mut SharedBody) {
    let mut read = 0;
    while read <= MAX_BYTES {
        match tokio::time::timeout(MAX_PAUSE, body.frame()).await {
            Ok(Some(Ok(frame))) => read += frame.data_ref().map_or(0, Bytes::len),
            Ok(None | Some(Err(_))) | Err(_) => return,
        }
    }
}

/// A body that can still be read after its handler has returned.
struct SharedBody(Arc<Mutex<Body>>);

impl http_body::Body for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}

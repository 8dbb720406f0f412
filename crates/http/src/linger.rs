//! Reading what a refused request still sends, so that its client gets to read why.
//!
//! A connection that is closed while bytes are unread is reset, and a reset overtakes the answer: the client would see a broken
//! connection in place of its error. So before an error is answered the rest of the body is read and thrown away, within limits.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;

/// Most bytes that are thrown away; a client that sends more may lose its answer.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// How long all of it may take.
const MOST_TIME: Duration = Duration::from_secs(10);
/// How long the client may pause.
const MOST_SILENCE: Duration = Duration::from_secs(1);

/// Lets an error go out only when the request was read.
pub(crate) async fn read_to_the_end(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let mut rest = Shared(Arc::new(Mutex::new(body)));
    let request = Request::from_parts(head, Body::new(Shared(Arc::clone(&rest.0))));
    let response = next.run(request).await;
    if !response.status().is_success() {
        // A client that is not done by then has lost nothing that it was promised.
        drop(tokio::time::timeout(MOST_TIME, throw_away(&mut rest)).await);
    }
    response
}

async fn throw_away(body: &mut Shared) {
    let mut read = 0;
    while read <= MOST_BYTES {
        match tokio::time::timeout(MOST_SILENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => read += frame.data_ref().map_or(0, Bytes::len),
            Ok(None | Some(Err(_))) | Err(_) => return,
        }
    }
}

/// A body that can still be read when the handler it was given to is done with it.
struct Shared(Arc<Mutex<Body>>);

impl http_body::Body for Shared {
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

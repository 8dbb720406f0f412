//! An answer whose head has arrived, and its body as it arrives.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap};
use hyper::body::{Body as _, Frame, Incoming};

use super::connection::{OpenConnection, quiet};
use super::pool::Pool;

/// An answer whose head has arrived.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: AnswerBody,
}

impl Answer {
    pub(super) fn new(response: Response<Incoming>, connection: OpenConnection, pool: &Arc<Pool>) -> Self {
        let (head, body) = response.into_parts();
        let open = Open { body, connection, pool: Arc::clone(pool) };
        Self { status: head.status.as_u16(), headers: head.headers, body: AnswerBody(Some(open)) }
    }

    /// The media type of the body. Empty if the server does not say it.
    pub(super) fn content_type(&self) -> &str {
        self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

/// The body of an answer, in the pieces in which it arrives. Nothing follows an error.
///
/// At its end the connection is kept for the next call. Dropping the body before that closes the connection, which ends
/// the call.
pub(super) struct AnswerBody(Option<Open>);

struct Open {
    body: Incoming,
    connection: OpenConnection,
    pool: Arc<Pool>,
}

impl Open {
    /// The body asks the connection for bytes when it is polled, so it is polled before and after the connection. Both
    /// wake each other; only the last drive, which waits for the socket, has to wake the caller.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut frame = Pin::new(&mut self.body).poll_frame(&mut quiet());
        if frame.is_pending() {
            self.connection.drive(&mut quiet());
            frame = Pin::new(&mut self.body).poll_frame(&mut quiet());
        }
        if frame.is_pending() {
            self.connection.drive(context);
            frame = Pin::new(&mut self.body).poll_frame(&mut quiet());
        }
        frame
    }
}

impl AnswerBody {
    /// How many bytes are still to come, if the server says so.
    pub(super) fn expected(&self) -> Option<u64> {
        self.0.as_ref().and_then(|open| open.body.size_hint().exact())
    }

    /// The next piece. Cancel-safe.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, hyper::Error> {
        self.next().await.transpose()
    }
}

impl Stream for AnswerBody {
    type Item = Result<Bytes, hyper::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(open) = &mut self.0 else { return Poll::Ready(None) };
        loop {
            match open.poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.0 = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    if let Some(Open { connection, pool, .. }) = self.0.take() {
                        pool.keep(connection);
                    }
                    return Poll::Ready(None);
                }
            }
        }
    }
}

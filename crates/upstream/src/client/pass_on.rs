//! Streamed answers that are passed on unchanged.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::unfold;

use super::answer_body::AnswerBody;
use super::failure::FailureMessages;
use crate::server::ByteStream;

/// The bytes of a streamed answer. Ends with a failure if the answer breaks off or no byte arrives in time.
pub(super) fn bytes_of(body: AnswerBody, timeout: Duration, failures: Arc<FailureMessages>) -> ByteStream {
    Box::pin(unfold(Some(body), move |body| {
        let failures = Arc::clone(&failures);
        async move {
            let mut body = body?;
            match tokio::time::timeout(timeout, body.piece()).await {
                Ok(Ok(Some(piece))) => Some((Ok(piece), Some(body))),
                Ok(Ok(None)) => None,
                Ok(Err(_)) => Some((Err(failures.cut_off()), None)),
                Err(_) => Some((Err(failures.silent_for(timeout)), None)),
            }
        }
    }))
}

//! Requests that are passed on as they are, and their answers as they come.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::unfold;
use reqwest::Response;

use super::failure::Blame;
use crate::server::ByteStream;

/// The bytes of a streamed answer. Ends with a failure if the answer breaks off, or nothing comes in time.
pub(super) fn bytes_of(response: Response, timeout: Duration, blame: Arc<Blame>) -> ByteStream {
    Box::pin(unfold(Some(response), move |response| {
        let blame = Arc::clone(&blame);
        async move {
            let mut response = response?;
            match tokio::time::timeout(timeout, response.chunk()).await {
                Ok(Ok(Some(piece))) => Some((Ok(piece), Some(response))),
                Ok(Ok(None)) => None,
                Ok(Err(_)) => Some((Err(blame.cut_off()), None)),
                Err(_) => Some((Err(blame.silent_for(timeout)), None)),
            }
        }
    }))
}

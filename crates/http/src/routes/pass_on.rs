//! `POST /v1/completions` and `POST /v1/embeddings`: passed on to the model's server. Nothing is stored.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use herma_gateway::{NotPassedOn, PassedOn};
use herma_upstream::{PassedAnswer, PassedTo};
use herma_wire::{passed_on, sse};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::app::Shared;
use crate::body;
use crate::error::ApiError;
use crate::json::from_bytes;
use crate::request_log::Notes;

/// Completes a text.
pub(crate) async fn completions(State(app): State<Shared>, request: Request) -> Result<Response, ApiError> {
    pass_on(app, PassedTo::Completions, request).await
}

/// Embeds texts.
pub(crate) async fn embeddings(State(app): State<Shared>, request: Request) -> Result<Response, ApiError> {
    pass_on(app, PassedTo::Embeddings, request).await
}

async fn pass_on(app: Shared, to: PassedTo, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let body = body::read(&app, &parts.headers, body).await?;
    let asked = passed_on::parse(&body)?;
    let model = app.gateway.model_for(asked.model.as_deref())?;
    Notes::current().model(model.name);
    let sent = Bytes::from(asked.to_json(model.name));
    match app.gateway.pass_on(to, &model, sent, &Notes::current().trace()).await {
        Ok(PassedOn { answer: PassedAnswer::Whole(json), usage, .. }) => {
            if let Some(usage) = usage {
                Notes::current().usage(usage);
            }
            Ok(from_bytes(json))
        }
        Ok(PassedOn { answer: PassedAnswer::Stream(bytes), place, .. }) => {
            Ok(streamed(PassedStream { bytes, _permit: place, notes: Notes::current() }))
        }
        Err(NotPassedOn::Refused(error)) => Err(error.into()),
        Err(NotPassedOn::Failed(failure)) => Err(ApiError::of_model_server(&failure)),
    }
}

/// An open stream. Its permit is released when it ends.
struct PassedStream {
    bytes: herma_upstream::ByteStream,
    _permit: tokio::sync::OwnedSemaphorePermit,
    notes: Notes,
}

/// The stream as the model server sends it. A failure after its beginning becomes an error frame, followed by `[DONE]`.
fn streamed(stream: PassedStream) -> Response {
    let frames = unfold(Some(stream), async |stream: Option<PassedStream>| {
        let mut stream = stream?;
        match stream.bytes.next().await? {
            Ok(bytes) => Some((Ok::<_, Infallible>(bytes), Some(stream))),
            Err(failure) => {
                let error = ApiError::of_model_server(&failure);
                stream.notes.failed_late(&error);
                let last = [&*sse::error_frame(error.body()), sse::DONE].concat();
                Some((Ok(last.into()), None))
            }
        }
    });
    let mut response = Response::new(Body::from_stream(frames));
    let response_headers = response.headers_mut();
    response_headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response_headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

//! `GET /v1/runs/{id}/events`: the events of a run, for any number of readers, live or replayed.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use bytes::Bytes;
use herma_gateway::{Finished, GatewayError, SessionView, session_object};
use herma_model::{Delta, MessageId, Principal, RunId, Step, TextRun};
use herma_wire::responses::Frame;
use herma_wire::runs::{RunEnding, RunEvents, RunOutput};
use herma_wire::sse;
use http::HeaderMap;

use super::run_id;
use super::stored::record;
use crate::app::Shared;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::headers;
use crate::path::Named;
use crate::query::Parameters;
use crate::stream::{Begun, Frames, StreamReader, TurnStream, UNKNOWN_EVENTS};

/// Streams the events from the first on, or after the one that the client names. `Last-Event-ID` wins over
/// `starting_after`, because a browser that reconnects sends the header to the same URL.
pub(crate) async fn events(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
    query: Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let parameters = Parameters::of(query, &["starting_after"])?;
    let number = |value: &str| value.parse::<u64>().ok();
    let asked = parameters.parsed("starting_after", number, "the id of an event")?;
    let after = headers::last_event(&headers, number)?.or(asked);
    let (record, stored) = record(&app, &principal, run_id(&id)?).await?;
    let requested = stored.requested.as_deref().map(Arc::from);
    let handle = app.gateway.read_again(&principal, record.id, requested);
    let frames = RunFrames::new(record.id.as_run(), after);
    TurnStream::new(&app, handle, frames, StreamReader::Replay).open().await
}

/// The events of a run.
struct RunFrames {
    /// `None` after the run has ended.
    events: Option<RunEvents>,
    /// The number of the last event that the client has already.
    after: Option<u64>,
}

impl RunFrames {
    fn new(run: RunId, after: Option<u64>) -> Self {
        Self { events: Some(RunEvents::new(run)), after }
    }

    fn finish(&mut self, finished: &Finished) -> Vec<Frame> {
        let Some(events) = self.events.take() else { return Vec::new() };
        let session = finished.session.as_ref().map(session_object);
        events.end(&RunEnding::Completed, &RunOutput::from(&finished.answer), session.as_ref())
    }

    fn bytes(&self, frames: Vec<Frame>) -> Vec<Bytes> {
        let is_new = |frame: &Frame| self.after.is_none_or(|after| frame.number > after);
        frames.into_iter().filter(is_new).map(|frame| frame.bytes).collect()
    }
}

impl Frames for RunFrames {
    const LAST: &'static [u8] = sse::CLOSED;
    const DIALECT: Dialect = Dialect::Runs;

    fn started(&mut self, begun: &Begun<'_>, _: MessageId) -> Vec<Bytes> {
        let (Some(events), Some(session)) = (&mut self.events, begun.session) else { return Vec::new() };
        let frames = events.started(begun.started_at, &session_object(session));
        self.bytes(frames)
    }

    fn step(&mut self, step: &Step, _: MessageId, session: &SessionView) -> Vec<Bytes> {
        let Some(events) = &mut self.events else { return Vec::new() };
        let frames = events.step(step, &session.facts.head.id);
        self.bytes(frames)
    }

    fn text(&mut self, run: &TextRun, out: &mut Vec<u8>) {
        if let Some(events) = &mut self.events {
            events.text(run, self.after, out);
        }
    }

    fn delta(&mut self, delta: &Delta) -> Vec<Bytes> {
        let Some(events) = &mut self.events else { return Vec::new() };
        let frames = events.delta(delta);
        self.bytes(frames)
    }

    fn finished(&mut self, finished: &Finished) -> Vec<Bytes> {
        let frames = self.finish(finished);
        self.bytes(frames)
    }

    /// A failure that does not end the run, such as an unreadable store, is an error without a number. The client can
    /// reconnect.
    fn fail(&mut self, error: &GatewayError, api_error: &ApiError, _: Option<&SessionView>) -> Vec<Bytes> {
        let (GatewayError::Turn(failure) | GatewayError::CutOff(failure)) = error else {
            return vec![sse::error_frame(api_error.body())];
        };
        let Some(mut events) = self.events.take() else { return Vec::new() };
        if matches!(error, GatewayError::CutOff(_)) {
            events.skip(UNKNOWN_EVENTS);
        }
        let frames = events.end(&RunEnding::from(failure), &RunOutput::default(), None);
        self.bytes(frames)
    }
}

//! A response as server-sent events: one frame, one write.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use herma_gateway::{Finished, GatewayError, SessionView, TurnEvent, TurnHandle, now};
use herma_model::turn::FailureCode;
use herma_model::{MessageId, ResponseId, Timestamp, TurnId};
use herma_wire::chat::whole_answer_deltas;
use herma_wire::responses::{Ending, Events, Frame, Outcome, ResponseError, compaction_item};
use herma_wire::sse;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use super::stored::{Identified, Kept};
use crate::app::Shared;
use crate::body::Delivery;
use crate::error::ApiError;
use crate::headers;
use crate::stream::{KEEP_ALIVE, OPENS_AFTER, session_object};

/// A stream under way.
pub(super) struct ResponseStream {
    app: Shared,
    handle: TurnHandle,
    began: Instant,
    kept: Option<Kept>,
    events: Option<Events>,
    session: Option<SessionView>,
    any_delta: bool,
    ready: VecDeque<Bytes>,
    ended: bool,
    delivery: Delivery,
}

/// A turn that has begun.
struct Begun<'a> {
    turn: TurnId,
    started_at: Timestamp,
    session: &'a SessionView,
}

impl Identified for Begun<'_> {
    fn response(&self) -> ResponseId {
        self.turn.as_response()
    }

    fn began(&self) -> Timestamp {
        self.started_at
    }

    fn conversation(&self) -> String {
        self.session.facts.id.to_string()
    }
}

impl ResponseStream {
    pub(super) fn new(app: Shared, handle: TurnHandle, kept: Kept, began: Instant) -> Self {
        let delivery = Delivery::of(Arc::clone(&app.gateway));
        Self {
            app,
            handle,
            began,
            kept: Some(kept),
            events: None,
            session: None,
            any_delta: false,
            ready: VecDeque::new(),
            ended: false,
            delivery,
        }
    }

    /// Opens the stream with its first word. Until then a failure is an answer with a status of its own.
    pub(super) async fn open(mut self) -> Result<Response, ApiError> {
        let patience = tokio::time::sleep(OPENS_AFTER);
        tokio::pin!(patience);
        loop {
            let event = tokio::select! {
                event = self.handle.next() => event,
                () = &mut patience, if self.session.is_some() => break,
            };
            if let TurnEvent::Failed(error) = &event {
                let error = ApiError::from(Arc::clone(error)).of_response();
                self.app.metrics.turn_ended(error.label(), self.began);
                return Err(error);
            }
            let opens = matches!(event, TurnEvent::Delta(_) | TurnEvent::Finished(_));
            self.take(event);
            if opens {
                break;
            }
        }
        let session = self.session.clone();
        let mut response = Response::new(self.into_body());
        let told = response.headers_mut();
        told.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        told.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Some(session) = &session {
            headers::tell(told, session);
        }
        Ok(response)
    }

    fn take(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Queued(session) => self.session = Some(session),
            TurnEvent::Started { turn, started_at, session, message } => {
                if let Some(message) = message {
                    self.begin(&Begun { turn, started_at, session: &session }, message);
                }
                self.session = Some(session);
            }
            TurnEvent::Compacted { id, session } => {
                self.session = Some(session);
                self.tell(|events| events.compacted(compaction_item(id, id.to_string())));
            }
            TurnEvent::Delta(delta) => {
                self.any_delta = true;
                self.tell(|events| events.delta(&delta));
            }
            TurnEvent::Finished(finished) => self.finish(&finished),
            TurnEvent::Failed(error) => self.fail(&error),
        }
    }

    fn begin(&mut self, begun: &Begun<'_>, message: MessageId) {
        let Some(kept) = self.kept.take() else { return };
        let (mut events, mut frames) = Events::begin(kept.about(begun), message, Some(&session_object(begun.session)));
        frames.extend(events.started());
        self.events = Some(events);
        self.show(frames);
    }

    fn tell(&mut self, event: impl FnOnce(&mut Events) -> Vec<Frame>) {
        if let Some(events) = &mut self.events {
            let frames = event(events);
            self.show(frames);
        }
    }

    fn show(&mut self, frames: Vec<Frame>) {
        self.ready.extend(frames.into_iter().map(|frame| frame.bytes));
    }

    fn finish(&mut self, finished: &Finished) {
        self.session = Some(finished.session.clone());
        let begun = Begun { turn: finished.turn, started_at: finished.started_at, session: &finished.session };
        self.begin(&begun, finished.message.id);
        if !self.any_delta {
            for delta in whole_answer_deltas(&finished.answer) {
                self.tell(|events| events.delta(&delta));
            }
        }
        let finish = &finished.answer.finish;
        let outcome = Outcome::of_answer(finish.reason);
        self.end(&Ending { outcome, at: finished.message.created_at, usage: finish.usage }, Some(&finished.session));
        self.app.metrics.turn_ended("completed", self.began);
        self.app.metrics.tokens(finish.usage.unwrap_or_default());
        self.delivery.expect(finished.tenant, finished.turn);
    }

    fn fail(&mut self, error: &Arc<GatewayError>) {
        let told = ApiError::from(Arc::clone(error)).of_response();
        self.app.metrics.turn_ended(told.label(), self.began);
        if self.events.is_none() {
            self.ready.push_back(sse::error_frame(told.body()));
            self.ready.push_back(Bytes::from_static(sse::DONE));
            self.ended = true;
            return;
        }
        let is_cancelled = matches!(&**error, GatewayError::Turn(failure) if failure.code == FailureCode::Cancelled);
        let error = ResponseError { code: told.body().code.clone(), message: told.body().message.clone() };
        let outcome = if is_cancelled { Outcome::Cancelled(error) } else { Outcome::Failed(error) };
        let session = self.session.take();
        self.end(&Ending { outcome, at: now(), usage: None }, session.as_ref());
    }

    fn end(&mut self, ending: &Ending, session: Option<&SessionView>) {
        if let Some(events) = self.events.take() {
            let frames = events.end(ending, session.map(session_object).as_ref());
            self.show(frames);
        }
        self.ready.push_back(Bytes::from_static(sse::DONE));
        self.ended = true;
    }

    /// The next frame, or nothing after the last. Cancel-safe.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.ended {
                self.delivery.done();
                return None;
            }
            match tokio::time::timeout(KEEP_ALIVE, self.handle.next()).await {
                Ok(event) => self.take(event),
                Err(_) => return Some(Bytes::from_static(sse::KEEP_ALIVE)),
            }
        }
    }

    fn into_body(self) -> Body {
        Body::from_stream(unfold(self, async |mut stream: Self| {
            let frame = stream.next().await?;
            Some((Ok::<_, Infallible>(frame), stream))
        }))
    }
}

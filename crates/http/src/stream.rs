//! A turn as server-sent events: one frame, one write.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::unfold;
use herma_gateway::{Finished, SessionView, TurnEvent, TurnHandle};
use herma_model::{Provenance, Timestamp, TurnId};
use herma_wire::chat::{self, Head};
use herma_wire::session::SessionObject;
use herma_wire::sse;

use crate::app::Shared;
use crate::body::Delivery;
use crate::error::ApiError;

/// How long a silent stream stays silent.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a stream may wait for its first word before it opens all the same.
pub(crate) const OPENS_AFTER: Duration = Duration::from_secs(10);

/// The `session` object of an answer.
pub(crate) fn session_object(session: &SessionView) -> SessionObject {
    let facts = &session.facts;
    SessionObject {
        conversation_id: facts.id,
        session_id: facts.head.id.clone(),
        requested_id: session.requested.as_ref().map(ToString::to_string),
        resolution: session.resolution,
        rotated: session.rotated,
        provenance: Provenance::of(facts, &facts.head),
    }
}

/// The id a chat completion has, made from its turn's.
pub(crate) fn completion_id(turn: TurnId) -> String {
    format!("chatcmpl-{}", turn.uuid().simple())
}

/// What a client wants of its stream beside the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extras {
    /// A chunk that counts tokens.
    pub(crate) usage: bool,
    /// Events that the SDKs do not know.
    pub(crate) events: bool,
}

/// A chat stream under way.
pub(crate) struct ChatStream {
    pub(crate) app: Shared,
    pub(crate) handle: TurnHandle,
    /// The model by the name the model server was given: one name from the first chunk to the last.
    pub(crate) model: String,
    pub(crate) extras: Extras,
    pub(crate) began: Instant,
    id: String,
    created: i64,
    role_sent: bool,
    any_delta: bool,
    ready: VecDeque<Bytes>,
    ended: bool,
    delivery: Delivery,
}

impl ChatStream {
    pub(crate) fn new(app: Shared, handle: TurnHandle, model: String, extras: Extras, began: Instant) -> Self {
        let delivery = Delivery::of(Arc::clone(&app.gateway));
        Self {
            app,
            handle,
            model,
            extras,
            began,
            id: String::new(),
            created: 0,
            role_sent: false,
            any_delta: false,
            ready: VecDeque::new(),
            ended: false,
            delivery,
        }
    }

    /// Learns which turn this is.
    pub(crate) fn is_turn(&mut self, turn: TurnId, started_at: Timestamp) {
        self.id = completion_id(turn);
        self.created = started_at.seconds();
    }

    /// Takes an event that was already received.
    pub(crate) fn take(&mut self, event: TurnEvent) {
        match event {
            TurnEvent::Queued(_) => {}
            TurnEvent::Started { turn, started_at, .. } => self.is_turn(turn, started_at),
            TurnEvent::Compacted { session, .. } => {
                if self.extras.events {
                    self.ready.push_back(sse::compacted_frame(&session_object(&session)));
                }
            }
            TurnEvent::Delta(delta) => {
                self.send_role();
                self.any_delta = true;
                let frame = chat::delta_chunk(&self.head(), &delta);
                self.ready.push_back(frame);
            }
            TurnEvent::Finished(finished) => self.finish(&finished),
            TurnEvent::Failed(error) => {
                let error = ApiError::from(error);
                self.app.metrics.turn_ended(error.label(), self.began);
                self.ready.push_back(sse::error_frame(error.body()));
                self.ready.push_back(Bytes::from_static(sse::DONE));
                self.ended = true;
            }
        }
    }

    fn finish(&mut self, finished: &Finished) {
        self.is_turn(finished.turn, finished.started_at);
        self.send_role();
        if !self.any_delta {
            for delta in chat::whole_answer_deltas(&finished.answer) {
                let frame = chat::delta_chunk(&self.head(), &delta);
                self.ready.push_back(frame);
            }
        }
        let finish = &finished.answer.finish;
        let session = session_object(&finished.session);
        let last = chat::finish_chunk(&self.head(), finish, Some(&session));
        self.ready.push_back(last);
        if self.extras.usage {
            let usage = chat::usage_chunk(&self.head(), finish.usage.as_ref());
            self.ready.push_back(usage);
        }
        self.ready.push_back(Bytes::from_static(sse::DONE));
        self.app.metrics.turn_ended("completed", self.began);
        self.app.metrics.tokens(finish.usage.unwrap_or_default());
        self.delivery.expect(finished.tenant, finished.turn);
        self.ended = true;
    }

    fn send_role(&mut self) {
        if !self.role_sent {
            self.role_sent = true;
            let frame = chat::role_chunk(&self.head());
            self.ready.push_back(frame);
        }
    }

    fn head(&self) -> Head<'_> {
        Head { id: &self.id, created: self.created, model: &self.model }
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

    /// The body of the answer.
    pub(crate) fn into_body(self) -> Body {
        Body::from_stream(unfold(self, async |mut stream| {
            let frame = stream.next().await?;
            Some((Ok::<_, Infallible>(frame), stream))
        }))
    }
}

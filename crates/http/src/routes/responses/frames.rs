//! A turn as the events of a response.

use bytes::Bytes;
use herma_gateway::{Finished, GatewayError, SessionView, now, session_object};
use herma_model::turn::FailureCode;
use herma_model::{ConversationId, Delta, MessageId, ResponseId, Step, TextRun, Timestamp};
use herma_wire::responses::{Ending, Events, Frame, ResponseError, ResponseOutcome};

use super::stored::{Identified, StoredRequest};
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::stream::{Begun, Frames, UNKNOWN_EVENTS};

/// The events of a response.
pub(super) struct ResponseFrames {
    /// What the response repeats of its request. Taken when the first event is made.
    stored: Option<StoredRequest>,
    events: Option<Events>,
    has_begun: bool,
    /// The number of the last event that the client has already.
    after: Option<u64>,
}

impl Identified for Begun<'_> {
    fn response(&self) -> ResponseId {
        self.turn.as_response()
    }

    fn began(&self) -> Timestamp {
        self.started_at
    }

    fn conversation(&self) -> Option<ConversationId> {
        self.session.map(|session| session.facts.id)
    }
}

impl ResponseFrames {
    pub(super) const fn new(stored: StoredRequest) -> Self {
        Self { stored: Some(stored), events: None, has_begun: false, after: None }
    }

    /// Leaves out the events up to this number.
    pub(super) fn after(self, after: Option<u64>) -> Self {
        Self { after, ..self }
    }

    /// A queued turn is shown only if it runs in the background: only then is its id visible while queued.
    fn queue(&mut self, begun: &Begun<'_>) -> Vec<Frame> {
        match &self.stored {
            Some(stored) if stored.echo.background() => self.create(begun, MessageId::answered(begun.turn, 1, 0)),
            _ => Vec::new(),
        }
    }

    fn begin(&mut self, begun: &Begun<'_>, message: MessageId) -> Vec<Frame> {
        let mut frames = self.create(begun, message);
        if !std::mem::replace(&mut self.has_begun, true) {
            frames.extend(self.events.as_mut().map(Events::started).unwrap_or_default());
        }
        frames
    }

    fn create(&mut self, begun: &Begun<'_>, message: MessageId) -> Vec<Frame> {
        let Some(stored) = self.stored.take() else { return Vec::new() };
        let (events, frames) = Events::begin(stored.about(begun), message, begun.session.map(session_object).as_ref());
        self.events = Some(events);
        frames
    }

    fn bytes(&self, frames: Vec<Frame>) -> Vec<Bytes> {
        let is_new = |frame: &Frame| self.after.is_none_or(|after| frame.number > after);
        frames.into_iter().filter(is_new).map(|frame| frame.bytes).collect()
    }

    fn finish(&mut self, finished: &Finished) -> Vec<Frame> {
        let Some(events) = self.events.take() else { return Vec::new() };
        let finish = &finished.answer.finish;
        let outcome = ResponseOutcome::of_answer(finish.reason);
        let ending = Ending { outcome, at: finished.message.created_at, usage: finish.usage };
        events.end(&ending, finished.session.as_ref().map(session_object).as_ref())
    }
}

impl Frames for ResponseFrames {
    const DIALECT: Dialect = Dialect::Responses;

    fn queued(&mut self, begun: &Begun<'_>) -> Vec<Bytes> {
        let frames = self.queue(begun);
        self.bytes(frames)
    }

    fn started(&mut self, begun: &Begun<'_>, message: MessageId) -> Vec<Bytes> {
        let frames = self.begin(begun, message);
        self.bytes(frames)
    }

    fn step(&mut self, step: &Step, next: MessageId, _: &SessionView) -> Vec<Bytes> {
        let Some(events) = &mut self.events else { return Vec::new() };
        let frames = events.step(step, next);
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

    fn fail(&mut self, error: &GatewayError, api_error: &ApiError, session: Option<&SessionView>) -> Vec<Bytes> {
        let Some(mut events) = self.events.take() else { return vec![api_error.first_frame()] };
        let is_cancelled = matches!(
            error,
            GatewayError::Turn(failure) | GatewayError::CutOff(failure) if failure.code == FailureCode::Cancelled
        );
        if matches!(error, GatewayError::CutOff(_)) {
            events.skip(UNKNOWN_EVENTS);
        }
        let error = ResponseError { code: api_error.body().code.clone(), message: api_error.body().message.clone() };
        let outcome = if is_cancelled { ResponseOutcome::Cancelled(error) } else { ResponseOutcome::Failed(error) };
        let ending = Ending { outcome, at: now(), usage: None };
        let frames = events.end(&ending, session.map(session_object).as_ref());
        self.bytes(frames)
    }
}

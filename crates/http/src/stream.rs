//! A turn as server-sent events, in any protocol. Frames that are ready together are one write.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use herma_gateway::{AnswerForm, Finished, GatewayError, SessionView, TurnEvent, TurnHandle};
use herma_model::{Delta, MessageId, Step, TextRun, Timestamp, TurnId};
use herma_wire::sse;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::app::Shared;
use crate::body::Delivery;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::request_log::Notes;
use crate::{answer, headers};

/// After this long without an event, a keep-alive frame is sent.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a stream of an admitted turn may wait for the first piece of its answer before it opens without it.
const OPENS_AFTER: Duration = Duration::from_secs(10);

/// How far event numbers jump after a crash. A process cannot stream this many events without journaling them. So
/// numbers that clients saw before the crash are not used again.
pub(crate) const UNKNOWN_EVENTS: u64 = 1_000_000;

/// At this size the frames that are ready are written before more are made. So a slow client takes little memory.
const MAX_READY_BYTES: usize = 32 * 1024;

/// Translates a turn's events into the frames of a protocol.
pub(crate) trait Frames: Send + 'static {
    /// The last bytes of every stream, however its turn ended.
    const LAST: &'static [u8] = sse::DONE;

    /// In which dialect errors are reported.
    const DIALECT: Dialect;

    /// How the messages of the model are shown.
    const FORM: AnswerForm = AnswerForm::Messages;

    /// The frames of a turn that waits in the queue.
    fn queued(&mut self, _: &Begun<'_>) -> Vec<Bytes> {
        Vec::new()
    }

    /// The frames of a turn that starts. `message` is the id of its first model message.
    fn started(&mut self, begun: &Begun<'_>, message: MessageId) -> Vec<Bytes>;

    /// The frames of a step in the middle of the turn. `next` is the id of the next model message.
    fn step(&mut self, step: &Step, next: MessageId, session: &SessionView) -> Vec<Bytes>;

    /// Adds the frames of pieces of the answer's text to `out`.
    fn text(&mut self, run: &TextRun, out: &mut Vec<u8>);

    /// The frames of any other piece of the answer.
    fn delta(&mut self, delta: &Delta) -> Vec<Bytes>;

    /// The frames of a turn that has its answer.
    fn finished(&mut self, finished: &Finished) -> Vec<Bytes>;

    /// The frames of a turn that failed after its stream was opened.
    fn fail(&mut self, error: &GatewayError, api_error: &ApiError, session: Option<&SessionView>) -> Vec<Bytes>;
}

/// A turn that is queued or running.
pub(crate) struct Begun<'a> {
    pub(crate) turn: TurnId,
    pub(crate) started_at: Timestamp,
    pub(crate) session: Option<&'a SessionView>,
}

/// Which client reads a stream. This decides when the stream opens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamReader {
    /// The client that asked for the turn. The stream opens with the first piece of the answer, so that an earlier
    /// failure has its own HTTP status.
    Requester,
    /// The client that asked for a background turn. The stream opens at once.
    Background,
    /// A client that reads a stored or running turn again. The stream opens at once. The turn is not marked as
    /// delivered.
    Replay,
}

/// An open stream of a turn. It sends keep-alive frames, and marks the turn as delivered when all was sent.
pub(crate) struct TurnStream<F> {
    handle: TurnHandle,
    frames: F,
    reader: StreamReader,
    session: Option<SessionView>,
    /// Whether the turn is queued or running, so that it can no longer be refused.
    is_accepted: bool,
    /// Whether the stream has told that the turn runs.
    has_begun: bool,
    /// Frames that were not taken yet.
    ready: Vec<u8>,
    /// The size of the frames that were taken last.
    taken: usize,
    ended: bool,
    finished: Option<Arc<Finished>>,
    delivery: Delivery,
    notes: Notes,
}

impl<F: Frames> TurnStream<F> {
    pub(crate) fn new(app: &Shared, handle: TurnHandle, frames: F, reader: StreamReader) -> Self {
        let delivery = Delivery::of(Arc::clone(&app.gateway));
        Self {
            handle,
            frames,
            reader,
            session: None,
            is_accepted: false,
            has_begun: false,
            ready: Vec::new(),
            taken: 0,
            ended: false,
            finished: None,
            delivery,
            notes: Notes::current(),
        }
    }

    /// Waits until the stream can open. A failure before that has its own HTTP status.
    pub(crate) async fn begin(mut self) -> Result<Self, ApiError> {
        let open_timeout = tokio::time::sleep(OPENS_AFTER);
        tokio::pin!(open_timeout);
        loop {
            let event = tokio::select! {
                event = self.handle.next() => event,
                () = &mut open_timeout, if self.is_accepted => break,
            };
            if let TurnEvent::Failed(error) = &event {
                return Err(self.failed(error));
            }
            let shown = self.ready.len();
            self.take(&event);
            let opens = match event {
                TurnEvent::Text(_) | TurnEvent::Delta(_) | TurnEvent::Finished(_) => true,
                // A tool call that the client sees is a piece of the answer. A compaction is not.
                TurnEvent::Step { step, .. } => step.compaction().is_none() && self.ready.len() > shown,
                TurnEvent::Queued { .. } | TurnEvent::Started { .. } | TurnEvent::Failed(_) => false,
            };
            if opens || self.reader != StreamReader::Requester {
                break;
            }
        }
        Ok(self)
    }

    /// Answers with the stream, as soon as it can open.
    pub(crate) async fn open(self) -> Result<Response, ApiError> {
        let begun = self.begin().await?;
        let (session, outlet) = (begun.session.clone(), begun.delivery.outlet());
        let mut response = Response::new(begun.into_body());
        response.extensions_mut().insert(outlet);
        let response_headers = response.headers_mut();
        response_headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response_headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if let Some(session) = &session {
            headers::insert_session(response_headers, session);
        }
        Ok(response)
    }

    fn failed(&self, error: &GatewayError) -> ApiError {
        let api_error = ApiError::of(error, F::DIALECT);
        self.notes.failed_late(&api_error);
        api_error
    }

    fn take(&mut self, event: &TurnEvent) {
        self.is_accepted = true;
        match event {
            TurnEvent::Queued { session, .. } | TurnEvent::Step { session, .. } => {
                self.session = Some(session.clone());
            }
            TurnEvent::Started { session, .. } => {
                self.has_begun = true;
                self.session.clone_from(session);
            }
            TurnEvent::Finished(finished) => {
                if !self.has_begun {
                    // The stream has joined a turn that was not streamed.
                    finished.events(F::FORM).iter().for_each(|event| self.take(event));
                }
                self.finished = Some(Arc::clone(finished));
                answer::note(&self.notes, finished);
                self.session.clone_from(&finished.session);
                if self.reader != StreamReader::Replay {
                    self.delivery.expect(finished.tenant, finished.turn);
                }
            }
            TurnEvent::Text(_) | TurnEvent::Delta(_) | TurnEvent::Failed(_) => {}
        }
        if let Some(session) = &self.session {
            self.notes.conversation(session.facts.id);
        }
        let new_frames = match event {
            TurnEvent::Failed(error) => {
                let api_error = self.failed(error);
                self.frames.fail(error, &api_error, self.session.as_ref())
            }
            TurnEvent::Queued { turn, since, session } => {
                self.frames.queued(&Begun { turn: *turn, started_at: *since, session: Some(session) })
            }
            TurnEvent::Started { turn, started_at, session, message } => {
                let begun = Begun { turn: *turn, started_at: *started_at, session: session.as_ref() };
                self.frames.started(&begun, *message)
            }
            TurnEvent::Step { step, next, session } => self.frames.step(step, *next, session),
            TurnEvent::Text(run) => {
                self.frames.text(run, &mut self.ready);
                Vec::new()
            }
            TurnEvent::Delta(delta) => self.frames.delta(delta),
            TurnEvent::Finished(finished) => self.frames.finished(finished),
        };
        new_frames.iter().for_each(|frame| self.ready.extend_from_slice(frame));
        if matches!(event, TurnEvent::Finished(_) | TurnEvent::Failed(_)) {
            self.ready.extend_from_slice(F::LAST);
            self.ended = true;
        }
    }

    /// The next frames: all that are ready, up to a limit. `None` after the last ones; by then all frames before were
    /// taken. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            while !self.ended
                && self.ready.len() < MAX_READY_BYTES
                && let Some(event) = self.handle.next_ready()
            {
                self.take(&event);
            }
            if !self.ready.is_empty() {
                self.taken = self.ready.len();
                return Some(Bytes::from(std::mem::take(&mut self.ready)));
            }
            if self.ended {
                self.delivery.done(self.taken);
                return None;
            }
            match tokio::time::timeout(KEEP_ALIVE, self.handle.next()).await {
                Ok(event) => self.take(&event),
                Err(_) => return Some(Bytes::from_static(sse::KEEP_ALIVE)),
            }
        }
    }

    /// The finished turn. `None` until the turn has ended with an answer.
    pub(crate) fn finished(&self) -> Option<&Finished> {
        self.finished.as_deref()
    }

    fn into_body(self) -> Body {
        Body::from_stream(unfold(self, async |mut stream: Self| {
            let frames = stream.next().await?;
            Some((Ok::<_, Infallible>(frames), stream))
        }))
    }
}

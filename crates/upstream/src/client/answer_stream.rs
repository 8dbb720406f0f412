//! A streamed answer as it arrives.
//!
//! It yields each event as soon as its bytes have arrived, and a failure if no byte arrives in time. Dropping
//! the stream ends the call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use herma_model::generation::Finish;
use herma_model::{ModelEvent, ModelFailure};
use tokio::time::{Instant, Sleep};

use super::failure::FailureMessages;
use crate::decode::sse::{Decoder, MAX_LINE_BYTES, TooLong};
use crate::decode::{Assembler, DecodeError, Progress};

/// How long to wait for the end of a body after the answer is complete. Then the connection is closed.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

type Body = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;
type NextEvent = Option<Result<ModelEvent, ModelFailure>>;

/// The events of a response whose body is an event stream.
pub(super) struct AnswerStream {
    /// `None` once the answer has ended.
    body: Option<Body>,
    frames: Decoder,
    assembler: Assembler,
    idle: Pin<Box<Sleep>>,
    is_waiting: bool,
    timeout: Duration,
    /// Whether the `Content-Type` says that the body is an event stream.
    is_declared: bool,
    failures: Arc<FailureMessages>,
}

impl AnswerStream {
    pub(super) fn new(
        response: reqwest::Response,
        is_declared: bool,
        timeout: Duration,
        failures: Arc<FailureMessages>,
    ) -> Self {
        Self {
            body: Some(Box::pin(response.bytes_stream().fuse())),
            frames: Decoder::new(MAX_LINE_BYTES),
            assembler: Assembler::default(),
            idle: Box::pin(tokio::time::sleep(timeout)),
            is_waiting: false,
            timeout,
            is_declared,
            failures,
        }
    }

    /// The next event in the bytes that have already arrived.
    fn next_event(&mut self) -> NextEvent {
        loop {
            match self.frames.next_frame() {
                Ok(None) => return None,
                Ok(Some(frame)) => match self.assembler.take(frame) {
                    Ok(Progress::Nothing) => {}
                    Ok(Progress::Piece(delta)) => return Some(Ok(ModelEvent::Delta(delta))),
                    Ok(Progress::Done(finish)) => return Some(self.finish(finish)),
                    Err(error) => return Some(self.fail(&error)),
                },
                Err(TooLong) => return Some(self.fail(&too_long())),
            }
        }
    }

    /// The event that the end of the body causes. If it is a piece, call this again.
    fn end(&mut self) -> NextEvent {
        let last = self.frames.finish();
        let progress = match last {
            Ok(Some(frame)) => match self.assembler.take(frame) {
                // The end of the body cut this frame in two. The server did not send a wrong frame.
                Err(DecodeError::Nonsense(_)) => Err(DecodeError::CutOff),
                other => other,
            },
            Ok(None) => Ok(Progress::Nothing),
            Err(TooLong) => Err(too_long()),
        };
        Some(match progress {
            Ok(Progress::Piece(delta)) => Ok(ModelEvent::Delta(delta)),
            Ok(Progress::Done(finish)) => self.close(finish),
            Ok(Progress::Nothing) if self.assembler.saw_no_frame() && !self.is_declared => {
                self.fail(&DecodeError::Nonsense("no event stream".to_owned()))
            }
            Ok(Progress::Nothing) => match self.assembler.end_of_body() {
                Ok(finish) => self.close(finish),
                Err(error) => self.fail(&error),
            },
            Err(error) => self.fail(&error),
        })
    }

    /// Ends the answer although the body may continue.
    fn finish(&mut self, finish: Finish) -> Result<ModelEvent, ModelFailure> {
        if let Some(body) = self.body.take() {
            drain_for_reuse(body);
        }
        self.close(finish)
    }

    fn close(&mut self, finish: Finish) -> Result<ModelEvent, ModelFailure> {
        self.body = None;
        Ok(ModelEvent::Finished(finish))
    }

    fn fail(&mut self, error: &DecodeError) -> Result<ModelEvent, ModelFailure> {
        self.body = None;
        Err(self.failures.decoding(error))
    }

    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, ModelFailure>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        if let Poll::Ready(piece) = body.poll_next_unpin(context) {
            self.is_waiting = false;
            return Poll::Ready(piece.map(|piece| piece.map_err(|_| self.failures.cut_off())));
        }
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.idle.as_mut().reset(Instant::now() + self.timeout);
        }
        self.idle.as_mut().poll(context).map(|()| Some(Err(self.failures.silent_for(self.timeout))))
    }
}

impl Stream for AnswerStream {
    type Item = Result<ModelEvent, ModelFailure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while this.body.is_some() {
            if let Some(event) = this.next_event() {
                return Poll::Ready(Some(event));
            }
            match this.poll_body(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(bytes))) => this.frames.push(&bytes),
                Poll::Ready(Some(Err(failure))) => {
                    this.body = None;
                    return Poll::Ready(Some(Err(failure)));
                }
                Poll::Ready(None) => return Poll::Ready(this.end()),
            }
        }
        Poll::Ready(None)
    }
}

fn too_long() -> DecodeError {
    DecodeError::Nonsense(format!("a line of more than {MAX_LINE_BYTES} bytes"))
}

/// Reads the rest of a body in the background. The connection can be reused only after the end of the body.
fn drain_for_reuse(mut body: Body) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(tokio::time::timeout(DRAIN_LIMIT, async move { while let Some(Ok(_)) = body.next().await {} }));
    }
}

//! A streamed answer as it arrives.
//!
//! It yields events as soon as their bytes have arrived, and a failure if no byte arrives in time. Events that have
//! arrived together are yielded together; none waits for a later one. Dropping the stream ends the call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use herma_model::generation::Finish;
use herma_model::{ModelEvent, ModelFailure, TextRun};
use tokio::time::{Instant, Sleep};

use super::answer_body::AnswerBody;
use super::failure::FailureMessages;
use crate::decode::sse::{Decoder, MAX_LINE_BYTES, TooLong};
use crate::decode::{Assembler, DecodeError, Progress};

/// How long to wait for the end of a body after the answer is complete. Then the connection is closed.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);
/// How many parts of a body that continues after the answer are read at once.
const MAX_READS_AT_ONCE: usize = 8;
/// The most pieces that are yielded together. It bounds the memory for a server that sends faster than is read.
const MAX_TOGETHER: usize = 512;

/// The events of a response whose body is an event stream.
pub(super) struct AnswerStream {
    /// `None` once the answer has ended.
    body: Option<AnswerBody>,
    frames: Decoder,
    assembler: Assembler,
    /// The failure that ends the answer. It is yielded after the events that came before it.
    failure: Option<ModelFailure>,
    idle: Pin<Box<Sleep>>,
    is_waiting: bool,
    timeout: Duration,
    /// Whether the `Content-Type` says that the body is an event stream.
    is_declared: bool,
    failures: Arc<FailureMessages>,
}

/// Events that have arrived together.
#[derive(Default)]
struct Arrived {
    events: Vec<ModelEvent>,
    /// How many pieces the events have.
    pieces: usize,
}

impl Arrived {
    fn text(&mut self, text: &str) {
        self.pieces += 1;
        match self.events.last_mut() {
            Some(ModelEvent::Text(run)) => run.push(text),
            _ => self.events.push(ModelEvent::Text(TextRun::from_iter([text]))),
        }
    }

    fn push(&mut self, event: ModelEvent) {
        self.pieces += 1;
        self.events.push(event);
    }

    const fn is_full(&self) -> bool {
        self.pieces >= MAX_TOGETHER
    }
}

impl AnswerStream {
    pub(super) fn new(body: AnswerBody, is_declared: bool, timeout: Duration, failures: Arc<FailureMessages>) -> Self {
        Self {
            body: Some(body),
            frames: Decoder::new(MAX_LINE_BYTES),
            assembler: Assembler::default(),
            failure: None,
            idle: Box::pin(tokio::time::sleep(timeout)),
            is_waiting: false,
            timeout,
            is_declared,
            failures,
        }
    }

    /// Reads the frames in the bytes that have already arrived.
    fn read_frames(&mut self, arrived: &mut Arrived, context: &mut Context<'_>) {
        while self.body.is_some() && !arrived.is_full() {
            match self.frames.next_frame() {
                Ok(None) => return,
                Ok(Some(frame)) => match self.assembler.take(frame) {
                    Ok(Progress::Nothing) => {}
                    Ok(Progress::Text(text)) => arrived.text(&text),
                    Ok(Progress::Piece(delta)) => arrived.push(ModelEvent::Delta(delta)),
                    Ok(Progress::Done(finish)) => self.finish(finish, arrived, context),
                    Err(error) => self.fail(&error),
                },
                Err(TooLong) => self.fail(&too_long()),
            }
        }
    }

    /// Reads what the end of the body left unfinished. If that is a piece, call this again.
    fn end(&mut self, arrived: &mut Arrived) {
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
        match progress {
            Ok(Progress::Text(text)) => arrived.text(&text),
            Ok(Progress::Piece(delta)) => arrived.push(ModelEvent::Delta(delta)),
            Ok(Progress::Done(finish)) => self.close(finish, arrived),
            Ok(Progress::Nothing) if self.assembler.saw_no_frame() && !self.is_declared => {
                self.fail(&DecodeError::Nonsense("no event stream".to_owned()));
            }
            Ok(Progress::Nothing) => match self.assembler.end_of_body() {
                Ok(finish) => self.close(finish, arrived),
                Err(error) => self.fail(&error),
            },
            Err(error) => self.fail(&error),
        }
    }

    /// Ends the answer although the body may continue.
    fn finish(&mut self, finish: Finish, arrived: &mut Arrived, context: &mut Context<'_>) {
        if let Some(body) = self.body.take() {
            drain_for_reuse(body, context);
        }
        self.close(finish, arrived);
    }

    fn close(&mut self, finish: Finish, arrived: &mut Arrived) {
        self.body = None;
        arrived.push(ModelEvent::Finished(finish));
    }

    fn fail(&mut self, error: &DecodeError) {
        self.body = None;
        self.failure = Some(self.failures.decoding(error));
    }

    /// Waits for the next bytes, or until the server has been silent for too long.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<ModelFailure> {
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.idle.as_mut().reset(Instant::now() + self.timeout);
        }
        self.idle.as_mut().poll(context).map(|()| self.failures.silent_for(self.timeout))
    }
}

impl Stream for AnswerStream {
    type Item = Result<Vec<ModelEvent>, ModelFailure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let mut arrived = Arrived::default();
        loop {
            this.read_frames(&mut arrived, context);
            let Some(body) = this.body.as_mut().filter(|_| !arrived.is_full()) else { break };
            match body.poll_next_unpin(context) {
                Poll::Pending if !arrived.events.is_empty() => break,
                Poll::Pending => match this.poll_idle(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(silence) => (this.body, this.failure) = (None, Some(silence)),
                },
                Poll::Ready(Some(Ok(bytes))) => this.frames.push(&bytes),
                Poll::Ready(Some(Err(_))) => (this.body, this.failure) = (None, Some(this.failures.cut_off())),
                Poll::Ready(None) => this.end(&mut arrived),
            }
            this.is_waiting = false;
        }
        if !arrived.events.is_empty() {
            return Poll::Ready(Some(Ok(arrived.events)));
        }
        Poll::Ready(this.failure.take().map(Err))
    }
}

fn too_long() -> DecodeError {
    DecodeError::Nonsense(format!("a line of more than {MAX_LINE_BYTES} bytes"))
}

/// Reads the rest of a body, in the background unless it is there already. The connection can be reused only after the
/// end of the body.
fn drain_for_reuse(mut body: AnswerBody, context: &mut Context<'_>) {
    for _ in 0..MAX_READS_AT_ONCE {
        match body.poll_next_unpin(context) {
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(None | Some(Err(_))) => return,
            Poll::Pending => break,
        }
    }
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(tokio::time::timeout(DRAIN_LIMIT, async move { while let Some(Ok(_)) = body.next().await {} }));
    }
}

//! The streamed output of a running turn, written to the store at intervals, so that it survives a crash. Also the
//! record of the pieces in which it was streamed, for clients that read it again.

use std::borrow::Cow;
use std::time::Duration;

use herma_store::{Lease, Receipt, StoreError, StreamedOutput};
use herma_wire::record::{self, Piece};
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::log::{TurnEvent, TurnLog};
use crate::request::TurnRequest;

/// How often streamed output is written while a turn runs.
const JOURNAL_EVERY: Duration = Duration::from_millis(250);

/// Writes the streamed output of the current message.
///
/// At most one write is pending. If a write fails, the next one includes its part, so the journal never has a gap.
pub(crate) struct Journal {
    is_streamed: bool,
    is_recorded: bool,
    written: JournalPosition,
    pending_write: Option<(Receipt, JournalPosition)>,
    due: Option<Instant>,
}

/// How far the journal is written.
#[derive(Debug, Clone, Copy, Default)]
struct JournalPosition {
    /// Bytes of text.
    text: usize,
    /// Events of the turn's log.
    events: usize,
}

impl Journal {
    /// A journal that writes only if the request is streamed, and records pieces only if the answer can be fetched.
    pub(crate) fn of(request: &TurnRequest) -> Self {
        Self {
            is_streamed: request.options.streaming,
            is_recorded: is_recorded(request),
            written: JournalPosition::default(),
            pending_write: None,
            due: None,
        }
    }

    /// Notes that a piece was streamed.
    pub(crate) fn shown(&mut self) {
        if self.is_streamed && self.due.is_none() {
            self.due = Some(Instant::now() + JOURNAL_EVERY);
        }
    }

    /// Waits until a write is due. [`StoreError::Fenced`] if the last write was refused because the turn has lost its
    /// lease. Cancel-safe.
    pub(crate) async fn due(&mut self) -> Result<(), StoreError> {
        if let Some((receipt, through)) = &mut self.pending_write {
            let (outcome, through) = (receipt.wait().await, *through);
            self.pending_write = None;
            match outcome {
                Ok(()) => self.written = through,
                Err(StoreError::Fenced) => return Err(StoreError::Fenced),
                Err(error) => {
                    tracing::warn!(%error, "what a turn has shown was not written yet; it is tried again");
                    self.due.get_or_insert_with(|| Instant::now() + JOURNAL_EVERY);
                }
            }
        }
        match self.due {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
        Ok(())
    }

    /// Begins the next model message. The streamed output of the last one is stored with that message.
    pub(crate) fn next_message(&mut self, log: &TurnLog) {
        self.pending_write = None;
        self.due = None;
        self.written = JournalPosition { text: 0, events: log.len() };
    }

    /// Writes the streamed output that is not written yet. `text` is all streamed text of the message.
    pub(crate) fn write(&mut self, gateway: &Gateway, lease: Lease, text: &str, log: &TurnLog) {
        self.due = None;
        let new = text.get(self.written.text..).unwrap_or_default();
        let events = if self.is_recorded { log.from(self.written.events) } else { Vec::new() };
        let record = record::of_shown(pieces(&events));
        let through = JournalPosition { text: text.len(), events: self.written.events + events.len() };
        if new.is_empty() && record.is_empty() {
            self.written = through;
        } else {
            let receipt = gateway.store.journal(lease, StreamedOutput { text: new.to_owned(), record });
            self.pending_write = Some((receipt, through));
        }
    }
}

/// The record of the model messages that are stored so far. `None` if clients cannot fetch them.
pub(crate) fn record_so_far(request: &TurnRequest, log: &TurnLog) -> Option<String> {
    // The last message has ended. The record of the next one will follow.
    record_of_answered(request, log).map(|record| record + record::NEXT_MESSAGE)
}

/// The record of a turn with an answer. `None` if clients cannot fetch it.
pub(crate) fn record_of_answered(request: &TurnRequest, log: &TurnLog) -> Option<String> {
    is_recorded(request).then(|| {
        let events = log.from(0);
        record::join(messages(&events).map(|message| record::of_answered(pieces(message))))
    })
}

/// The same for a turn without an answer: its last message was cut off.
pub(crate) fn record_of_unanswered(request: &TurnRequest, log: &TurnLog) -> Option<String> {
    is_recorded(request).then(|| {
        let events = log.from(0);
        let mut messages: Vec<_> = messages(&events).collect();
        let last = messages.pop().map(|message| record::of_shown(pieces(message)));
        record::join(messages.into_iter().map(|message| record::of_answered(pieces(message))).chain(last))
    })
}

fn is_recorded(request: &TurnRequest) -> bool {
    request.options.streaming && request.options.response.as_ref().is_some_and(|response| response.kept)
}

/// The events of each model message. A message in the middle of the turn ends with its step.
fn messages(events: &[TurnEvent]) -> impl Iterator<Item = &[TurnEvent]> {
    events.split(|event| matches!(event, TurnEvent::Step { step, .. } if step.model_message().is_some()))
}

fn pieces(events: &[TurnEvent]) -> impl Iterator<Item = Piece<'_>> {
    events.iter().filter_map(|event| match event {
        TurnEvent::Text(run) => Some(Piece::Text(Cow::Borrowed(run))),
        TurnEvent::Delta(delta) => Some(Piece::Delta(Cow::Borrowed(delta))),
        TurnEvent::Step { step, .. } => step.compaction().map(Piece::Compacted),
        TurnEvent::Queued { .. } | TurnEvent::Started { .. } | TurnEvent::Finished(_) | TurnEvent::Failed(_) => None,
    })
}

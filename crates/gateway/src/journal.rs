//! What a running turn has shown of its current message, written down now and then, so that a crash keeps it; and in
//! what pieces its steps were shown, for those who read it again.

use std::borrow::Cow;
use std::time::Duration;

use herma_model::Step;
use herma_store::{Lease, Receipt, StoreError, StreamedOutput};
use herma_wire::record::{self, Piece};
use tokio::time::Instant;

use crate::gateway::Gateway;
use crate::log::{TurnEvent, TurnLog};
use crate::request::TurnRequest;

/// How often what was shown is written down while a turn runs.
const JOURNAL_EVERY: Duration = Duration::from_millis(250);

/// Writes what was shown down, now and then.
///
/// At most one part is on its way at a time. A part that was not written is part of the next one, so the journal never
/// has a gap.
pub(crate) struct Journal {
    is_shown: bool,
    is_recorded: bool,
    written: Written,
    on_its_way: Option<(Receipt, Written)>,
    due: Option<Instant>,
}

/// How much of what was shown is in the journal.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    /// Bytes of text.
    text: usize,
    /// Events of the turn's log.
    events: usize,
}

impl Journal {
    /// Only what is streamed is shown before its end, and only what can be fetched is read again.
    pub(crate) fn of(request: &TurnRequest) -> Self {
        Self {
            is_shown: request.options.streaming,
            is_recorded: is_recorded(request),
            written: Written::default(),
            on_its_way: None,
            due: None,
        }
    }

    /// Takes note that something was shown.
    pub(crate) fn shown(&mut self) {
        if self.is_shown && self.due.is_none() {
            self.due = Some(Instant::now() + JOURNAL_EVERY);
        }
    }

    /// Waits until there is something to write. [`StoreError::Fenced`] if the last part was refused because the turn
    /// has lost its lease. Cancel-safe.
    pub(crate) async fn due(&mut self) -> Result<(), StoreError> {
        if let Some((receipt, through)) = &mut self.on_its_way {
            let (outcome, through) = (receipt.wait().await, *through);
            self.on_its_way = None;
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

    /// Writes what is new of everything shown.
    pub(crate) fn write(&mut self, gateway: &Gateway, lease: Lease, text: &str, log: &TurnLog) {
        self.due = None;
        let new = text.get(self.written.text..).unwrap_or_default();
        let events = if self.is_recorded { log.from(self.written.events) } else { Vec::new() };
        let record = record::of_shown(pieces(&events));
        let through = Written { text: text.len(), events: self.written.events + events.len() };
        if new.is_empty() && record.is_empty() {
            self.written = through;
        } else {
            let receipt = gateway.store.journal(lease, StreamedOutput { text: new.to_owned(), record });
            self.on_its_way = Some((receipt, through));
        }
    }
}

/// In what pieces a turn was shown that has its answer, if that may be asked for again.
pub(crate) fn record_of_answered(request: &TurnRequest, log: &TurnLog) -> Option<String> {
    is_recorded(request).then(|| {
        let events = log.from(0);
        record::join(messages(&events).map(|message| record::of_answered(pieces(message))))
    })
}

/// The same, of a turn without an answer: its last message was cut off.
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

/// The events of each model message. One that was said in the middle of the turn ends with its step.
fn messages(events: &[TurnEvent]) -> impl Iterator<Item = &[TurnEvent]> {
    events.split(|event| matches!(event, TurnEvent::Step { step: Step::Said(_), .. }))
}

fn pieces(events: &[TurnEvent]) -> impl Iterator<Item = Piece<'_>> {
    events.iter().filter_map(|event| match event {
        TurnEvent::Delta(delta) => Some(Piece::Delta(Cow::Borrowed(delta))),
        TurnEvent::Step { step: Step::Compacted(id), .. } => Some(Piece::Compacted(*id)),
        TurnEvent::Step { step: Step::Said(_), .. } => None,
        TurnEvent::Queued { .. } | TurnEvent::Started { .. } | TurnEvent::Finished(_) | TurnEvent::Failed(_) => None,
    })
}

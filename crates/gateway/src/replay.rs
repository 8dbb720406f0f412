//! The events of a turn, made from its steps, as listeners of its stream are shown them.
//!
//! A turn that is read again gives the same events in the same order: the pieces of each model message, and each step.
//! So an event has the same number for clients that read it live and clients that read it later. There are three
//! readers: of a stored turn, of earlier attempts of a running turn, and of a turn that was not streamed.

use std::collections::VecDeque;
use std::sync::Arc;

use herma_model::{Answer, Message, MessageId, MessageStatus, Step, TurnState};
use herma_store::TurnRecord;
use herma_wire::chat::{answer_of, shown_text, whole_answer_deltas};
use herma_wire::record::{self, Piece};

use crate::answer::{client_answer, unknown_finish};
use crate::log::{AnswerForm, Finished, SessionView, TurnEvent};

/// The events between the beginning of a turn and its end, as far as they are stored.
///
/// The last message of a turn with an answer is not among them: it comes with the turn's end.
pub(crate) fn replay(record: &TurnRecord, session: &SessionView) -> Vec<TurnEvent> {
    let untold = record.said().map(|message| message.id).collect();
    let mut replay = Replay { record, session, appended: 0, untold, events: Vec::new(), compactions: Vec::new() };
    let mut parts = record::parts(&record.shown.record);
    let mut cut_off = None;
    for step in &record.steps {
        match step.model_message() {
            Some(message) if message.said.status == MessageStatus::Partial => cut_off = Some(message),
            Some(message) => replay.said(message, parts.next().unwrap_or_default()),
            None if step.compaction().is_some() => replay.compactions.push(step.clone()),
            None => replay.step(step.clone()),
        }
    }
    if record.state == TurnState::Completed {
        if let Some(last) = record.said().next_back() {
            end(&mut replay.events, last);
        }
        return replay.events;
    }
    let text = cut_off.and_then(|message| shown_text(&message.said));
    let text = text.as_deref().unwrap_or(&record.shown.text);
    for piece in record::shown_steps(parts.next().unwrap_or_default(), text).unwrap_or_default() {
        replay.piece(piece);
    }
    replay.events
}

/// The events of steps that earlier attempts made, for the listeners of a later attempt. `next` is the id of the later
/// attempt's first message. With `holds_text`, clients are shown the text of the last message alone.
pub(crate) fn replay_steps(steps: &[Step], session: &SessionView, next: MessageId, holds_text: bool) -> Vec<TurnEvent> {
    let mut events = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        if let Some(message) = step.model_message() {
            let shown = whole_answer_deltas(&shown_at_once(message)).into_iter();
            events.extend(shown.filter(|delta| !holds_text || delta.content.is_none()).map(TurnEvent::delta));
        }
        let next = first_message(&steps[at + 1..]).unwrap_or(next);
        events.push(TurnEvent::Step { step: step.clone(), next, session: session.clone() });
    }
    events
}

impl Finished {
    /// The events of the turn before its end, for listeners of a stream that joined a turn which was not streamed.
    pub fn events(&self, form: AnswerForm) -> Vec<TurnEvent> {
        let message = first_message(&self.steps).unwrap_or(self.message.id);
        let session = self.session.clone();
        let mut events = vec![TurnEvent::Started { turn: self.turn, started_at: self.started_at, session, message }];
        match (&self.session, form) {
            (Some(session), AnswerForm::Messages) => {
                events.extend(replay_steps(&self.steps, session, self.message.id, false));
                end(&mut events, &self.message);
            }
            // A stateless turn has one message, and that is its answer.
            (None, AnswerForm::Messages) | (_, AnswerForm::OneMessage) => events.extend(deltas(&self.answer)),
        }
        events
    }
}

/// Ends the events of a turn with an answer. Its last message comes with the end itself, unless it was a step before.
fn end(events: &mut Vec<TurnEvent>, last: &Message) {
    if last.said.own_calls().is_empty() {
        events.pop();
        return;
    }
    let tool_calls = client_answer(&last.said, unknown_finish()).tool_calls;
    events.extend(deltas(&Answer { tool_calls, ..Answer::of_nothing(unknown_finish()) }));
}

/// The id of the first model message among steps.
pub(crate) fn first_message(steps: &[Step]) -> Option<MessageId> {
    steps.iter().find_map(Step::model_message).map(|message| message.id)
}

struct Replay<'a> {
    record: &'a TurnRecord,
    session: &'a SessionView,
    /// Messages that the last attempt had appended.
    appended: usize,
    /// Ids of the model messages that are not told yet.
    untold: VecDeque<MessageId>,
    events: Vec<TurnEvent>,
    /// Compactions since the last message. The record of the next message says where they stand among its pieces.
    compactions: Vec<Step>,
}

impl Replay<'_> {
    fn said(&mut self, message: &Arc<Message>, part: &str) {
        let answer = shown_at_once(message);
        // A message that was not streamed has no record.
        match Some(part).filter(|part| !part.is_empty()).and_then(|part| record::steps(part, &answer)) {
            Some(pieces) => pieces.into_iter().for_each(|piece| self.piece(piece)),
            None => {
                for step in std::mem::take(&mut self.compactions) {
                    self.step(step);
                }
                self.events.extend(deltas(&answer));
            }
        }
        self.compactions.clear();
        self.step(Step::Said(Arc::clone(message)));
    }

    fn piece(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Text(run) => self.events.push(TurnEvent::text(run.into_owned())),
            Piece::Delta(delta) => self.events.push(TurnEvent::delta(delta.into_owned())),
            Piece::Compacted(id) => self.step(Step::Compacted(id)),
        }
    }

    fn step(&mut self, step: Step) {
        let attempt = self.record.attempt;
        if step.stored_message().is_some_and(|message| message.attempt == attempt) {
            self.appended += 1;
        }
        if step.model_message().is_some() {
            self.untold.pop_front();
        }
        let later = self.untold.front().copied();
        let next = later.unwrap_or_else(|| MessageId::answered(self.record.id, attempt, self.appended));
        self.events.push(TurnEvent::Step { step, next, session: self.session.clone() });
    }
}

/// What clients are shown of a model message before it ends.
///
/// Calls of Herma's own tools are steps of their own. Beside them, calls of the client's tools are shown at the end of
/// the turn.
fn shown_at_once(message: &Message) -> Answer {
    let mut answer = answer_of(&message.said, unknown_finish());
    if !message.said.own_calls().is_empty() {
        answer.tool_calls.clear();
    }
    answer
}

fn deltas(answer: &Answer) -> impl Iterator<Item = TurnEvent> + use<> {
    whole_answer_deltas(answer).into_iter().map(TurnEvent::delta)
}

//! Reading a turn that somebody else asked for: the same request sent again, or a stream read again.
//!
//! A turn of this process is read from its log. Any other is read from the store: while it runs, each part that its
//! process writes down, when the store tells of it; when it is over, all of it. Either way the events are the same, from
//! the first on.

use std::sync::Arc;
use std::time::Duration;

use herma_model::generation::Finish;
use herma_model::turn::FailureCode;
use herma_model::{
    Answer, Delta, FinishReason, Message, MessageId, MessageStatus, Principal, Seq, Step, TurnFailure, TurnId,
    TurnState,
};
use herma_store::{Notice, Scope, StopOutcome, StreamedThrough, Subscription, TurnRecord};
use herma_turn::Stop;
use herma_wire::chat::{answer_of, assistant_utterance, shown_text, whole_answer_deltas};
use herma_wire::record::{self, Piece};
use tokio::sync::watch;

use crate::admission::INTERRUPT_GRACE;
use crate::error::{GatewayError, Missing};
use crate::gateway::Gateway;
use crate::log::{Finished, SessionView, TurnEvent, TurnLog};
use crate::mint;
use crate::request::{OnDisconnect, TurnHandle};

/// How often the store is asked whether a turn that was called off has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a follower waits for a notice before it looks by itself.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Gateway {
    /// Reads a turn's events from the first on, while it runs or when it is over. `requested` is the name that was used for its
    /// conversation. Whoever stops reading does not stop the turn.
    pub fn read_again(
        self: &Arc<Self>,
        principal: &Principal,
        turn: TurnId,
        requested: Option<Arc<str>>,
    ) -> TurnHandle {
        // The reader's own: it ends the following, not the turn.
        let (stop, mut stopped) = watch::channel(None);
        if let Some(live) = self.live.get(turn) {
            return TurnHandle::new(&live.log, stop, OnDisconnect::Finish);
        }
        let log = Arc::new(TurnLog::default());
        let handle = TurnHandle::new(&log, stop, OnDisconnect::Cancel);
        let (gateway, principal) = (Arc::clone(self), principal.clone());
        tokio::spawn(async move {
            let follower = Follower { gateway: &gateway, principal: &principal, requested, turn, log: &log };
            tokio::select! {
                followed = follower.follow() => {
                    if followed == Followed::Gone {
                        log.push(TurnEvent::Failed(Arc::new(GatewayError::NotFound(Missing::Turn))));
                    }
                }
                _ = stopped.wait_for(Option::is_some) => {}
            }
        });
        handle
    }

    /// Calls a turn off, whichever process runs it, and waits until it has ended. One that has ended stays as it is.
    pub async fn cancel(&self, principal: &Principal, turn: TurnId) -> Result<(), GatewayError> {
        let scope = Scope::of(principal);
        loop {
            match self.store.stop(&scope, turn, INTERRUPT_GRACE, mint::now()).await? {
                StopOutcome::NotFound => return Err(GatewayError::NotFound(Missing::Turn)),
                StopOutcome::Ended => break,
                StopOutcome::Asked => {}
            }
            self.live.stop(turn, Stop::Cancel);
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.live.stop(turn, Stop::Cancel);
        Ok(())
    }
}

/// How following a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The turn ended, and the log has its end.
    ToTheEnd,
    /// The turn was forgotten before it ended: its process died or gave it up while it waited, or it was refused. The
    /// log has no end yet.
    Gone,
}

/// Repeats a turn's events to another log, from its beginning to its end.
pub(crate) struct Follower<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) principal: &'a Principal,
    /// The name that the follower used for its conversation.
    pub(crate) requested: Option<Arc<str>>,
    pub(crate) turn: TurnId,
    pub(crate) log: &'a TurnLog,
}

impl Follower<'_> {
    /// Follows the turn to its end, or until the store forgets it. Cancel-safe.
    pub(crate) async fn follow(&self) -> Followed {
        if let Some(live) = self.gateway.live.get(self.turn) {
            let mut events = live.log.subscribe();
            loop {
                let event = events.next().await;
                let ended = matches!(event, TurnEvent::Finished(_) | TurnEvent::Failed(_));
                self.log.push(event);
                if ended {
                    return Followed::ToTheEnd;
                }
            }
        }
        let end = match self.stored().await {
            Ok(None) => return Followed::Gone,
            Ok(Some(end)) => end,
            Err(error) => TurnEvent::Failed(Arc::new(error)),
        };
        self.log.push(end);
        Followed::ToTheEnd
    }

    /// Waits for the end of a turn that is not this process', and tells what is known of it until then. `None` if the
    /// store has forgotten the turn.
    async fn stored(&self) -> Result<Option<TurnEvent>, GatewayError> {
        let scope = Scope::of(self.principal);
        // Before the first read, so that no change after it is missed.
        let mut changed = self.gateway.store.subscribe(Notice::TurnChanged(self.turn));
        let mut told = Told::default();
        loop {
            let Some(record) = self.gateway.store.turn(&scope, self.turn).await? else { return Ok(None) };
            let record = record.as_it_stands();
            if told.shown > 0 && told.attempt != record.attempt {
                return Ok(Some(TurnEvent::Failed(Arc::new(GatewayError::CutOff(another_attempt())))));
            }
            self.tell(&record, &mut told);
            if !record.state.is_live() {
                return Ok(Some(self.outcome(record)));
            }
            self.tell_parts(&scope, record.streamed_through, &mut told, &mut changed).await?;
        }
    }

    /// Tells the parts that are written down after a place, and reads nothing else. Returns when the whole turn has to
    /// be read again: it does not run any more, or has made a step.
    async fn tell_parts(
        &self,
        scope: &Scope,
        mut through: StreamedThrough,
        told: &mut Told,
        changed: &mut Subscription,
    ) -> Result<(), GatewayError> {
        loop {
            if let Ok(notified) = tokio::time::timeout(LOOK_AGAIN, changed.notified()).await {
                notified?;
            }
            let Some(part) = self.gateway.store.streamed_since(scope, self.turn, through).await? else { return Ok(()) };
            let pieces = record::shown_steps(&part.shown.record, &part.shown.text).unwrap_or_default();
            for piece in pieces {
                let Piece::Delta(delta) = piece else { return Ok(()) };
                told.shown += 1;
                self.log.push(TurnEvent::Delta(Arc::new(delta.into_owned())));
            }
            through = part.through;
        }
    }

    /// Tells what has not been told yet.
    fn tell(&self, record: &TurnRecord, told: &mut Told) {
        let begun = || SessionView { rotated: false, facts: Arc::clone(&record.began), ..self.view(record) };
        if !record.has_begun {
            if !std::mem::replace(&mut told.queued, true) {
                self.log.push(TurnEvent::Queued { turn: record.id, since: record.started_at, session: begun() });
            }
            return;
        }
        if !std::mem::replace(&mut told.started, true) {
            let (turn, started_at) = (record.id, record.started_at);
            let message = MessageId::answered(turn, record.attempt, 0);
            self.log.push(TurnEvent::Started { turn, started_at, session: Some(begun()), message });
        }
        told.attempt = record.attempt;
        for shown in shown(record).into_iter().skip(told.shown) {
            told.shown += 1;
            self.log.push(match shown {
                ReplayEvent::Piece(delta) => TurnEvent::Delta(Arc::new(delta)),
                ReplayEvent::Step(step) => TurnEvent::Step { step, session: self.view(record) },
            });
        }
    }

    fn view(&self, record: &TurnRecord) -> SessionView {
        SessionView {
            facts: Arc::clone(&record.facts),
            requested: self.requested.clone(),
            resolution: record.resolution,
            rotated: record.rotated,
            revision: None,
        }
    }

    fn outcome(&self, record: TurnRecord) -> TurnEvent {
        if record.state != TurnState::Completed {
            let unknown = || TurnFailure::new(FailureCode::Internal, "the turn ended without an answer");
            let failure = record.failure.unwrap_or_else(unknown);
            return TurnEvent::Failed(Arc::new(match record.cut_off {
                true => GatewayError::CutOff(failure),
                false => GatewayError::Turn(failure),
            }));
        }
        let answer = stored_answer(&record).unwrap_or_else(|| taken_out(&record));
        TurnEvent::Finished(Arc::new(Finished {
            turn: record.id,
            tenant: self.principal.tenant,
            started_at: record.started_at,
            message: record.said().last().map_or_else(|| Arc::new(message_of(&record, &answer)), Arc::clone),
            answer,
            steps: record.steps.clone(),
            session: Some(self.view(&record)),
        }))
    }
}

/// What a follower has told.
#[derive(Default)]
struct Told {
    queued: bool,
    started: bool,
    /// The attempt that was shown.
    attempt: u32,
    /// Pieces and steps of it.
    shown: usize,
}

/// Why a follower ends that has told a part of an attempt when the next one begins.
fn another_attempt() -> TurnFailure {
    let message = "the turn is tried again from its beginning; send the request again to read that";
    TurnFailure::new(FailureCode::Abandoned, message)
}

/// Something that listeners were shown before the turn's end.
enum ReplayEvent {
    Piece(Delta),
    Step(Step),
}

/// What was shown of a turn, as far as it is known: the pieces of each message, and then the step that it is. The last
/// step of a turn with an answer comes with its end.
fn shown(record: &TurnRecord) -> Vec<ReplayEvent> {
    let mut shown = Vec::new();
    let mut parts = record::parts(&record.shown.record);
    let mut compactions = Vec::new();
    let mut cut_off = None;
    for step in &record.steps {
        match step {
            Step::Compacted(_) => compactions.push(ReplayEvent::Step(step.clone())),
            Step::Said(message) if message.said.status == MessageStatus::Partial => cut_off = Some(message),
            Step::Said(message) => {
                let part = parts.next().unwrap_or_default();
                let answer = answer_of(&message.said, record.finish.clone().unwrap_or_else(unknown_finish));
                // One that was not shown piece by piece has no record.
                match Some(part).filter(|part| !part.is_empty()).and_then(|part| record::steps(part, &answer)) {
                    Some(pieces) => shown.extend(pieces.into_iter().map(ReplayEvent::from)),
                    None => {
                        shown.append(&mut compactions);
                        shown.extend(whole_answer_deltas(&answer).into_iter().map(ReplayEvent::Piece));
                    }
                }
                compactions.clear();
                shown.push(ReplayEvent::Step(step.clone()));
            }
        }
    }
    if record.state == TurnState::Completed {
        shown.pop();
        return shown;
    }
    let text = cut_off.and_then(|message| shown_text(&message.said));
    let text = text.as_deref().unwrap_or(&record.shown.text);
    let pieces = record::shown_steps(parts.next().unwrap_or_default(), text).unwrap_or_default();
    shown.extend(pieces.into_iter().map(ReplayEvent::from));
    shown
}

impl From<Piece<'_>> for ReplayEvent {
    fn from(piece: Piece<'_>) -> Self {
        match piece {
            Piece::Delta(delta) => Self::Piece(delta.into_owned()),
            Piece::Compacted(id) => Self::Step(Step::Compacted(id)),
        }
    }
}

/// A turn's answer, or what was shown of one: the texts of its messages, with a blank line between them, and all else
/// of the last one.
pub fn stored_answer(record: &TurnRecord) -> Option<Answer> {
    let finish = record.finish.clone().unwrap_or_else(unknown_finish);
    let mut said = record.said();
    let last = said.next_back()?;
    let mut answer = answer_of(&last.said, finish);
    let mut texts: Vec<String> = said.filter_map(|message| shown_text(&message.said)).collect();
    if !texts.is_empty() {
        texts.extend(answer.content.take());
        answer.content = Some(texts.join("\n\n"));
    }
    Some(answer)
}

/// What is left of an answer that somebody took out of its conversation.
fn taken_out(record: &TurnRecord) -> Answer {
    Answer {
        content: None,
        refusal: None,
        tool_calls: Vec::new(),
        extra: Default::default(),
        choice_extra: Default::default(),
        finish: record.finish.clone().unwrap_or_else(unknown_finish),
    }
}

fn message_of(record: &TurnRecord, answer: &Answer) -> Message {
    Message {
        id: MessageId::answered(record.id, record.attempt, 0),
        seq: Seq(0),
        session: record.facts.head.id.clone(),
        turn: record.id,
        attempt: record.attempt,
        created_at: record.ended_at.unwrap_or(record.started_at),
        said: assistant_utterance(answer, MessageStatus::Complete),
    }
}

fn unknown_finish() -> Finish {
    Finish { reason: FinishReason::Stop, usage: None, model: None, extra: Default::default() }
}

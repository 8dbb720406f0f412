//! Reading a turn that an earlier request began: the same request sent again, or a stream read again.
//!
//! A turn of this process is read from its log. Any other turn is read from the store. While it runs, the follower
//! reads each part that its process writes, after a notice of the store. Both ways give the same events, from the
//! first.

use std::sync::Arc;
use std::time::Duration;

use herma_model::turn::FailureCode;
use herma_model::{Answer, Message, MessageId, MessageStatus, Principal, Seq, TurnFailure, TurnId, TurnState};
use herma_store::{Notice, Scope, StopOutcome, StreamedThrough, Subscription, TurnRecord};
use herma_turn::Stop;
use herma_wire::chat::assistant_utterance;
use herma_wire::record::{self, Piece};
use tokio::sync::watch;

use crate::admission::INTERRUPT_GRACE;
use crate::answer::{stored_answer, unknown_finish};
use crate::error::{GatewayError, Missing};
use crate::gateway::Gateway;
use crate::log::{Finished, SessionView, TurnEvent, TurnLog};
use crate::mint;
use crate::replay::{first_message, replay};
use crate::request::{OnDisconnect, TurnHandle};

/// How often the store is asked whether a cancelled turn has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a follower waits for a notice before it reads the store without one.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Gateway {
    /// Reads a turn's events from the first, whether it runs or has ended. `requested` is the name that was used for
    /// its conversation. Dropping the handle does not stop the turn.
    pub fn read_again(
        self: &Arc<Self>,
        principal: &Principal,
        turn: TurnId,
        requested: Option<Arc<str>>,
    ) -> TurnHandle {
        // This channel stops the follower, not the turn.
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

    /// Cancels a turn of any process, and waits until it has ended. A turn that has ended stays as it is.
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
    /// The store forgot the turn before it ended: it was refused, or its process died or gave it up while it waited.
    /// The log has no end yet.
    Gone,
}

/// Copies a turn's events to another log, from the first to the last.
pub(crate) struct Follower<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) principal: &'a Principal,
    /// The name that the follower used for its conversation.
    pub(crate) requested: Option<Arc<str>>,
    pub(crate) turn: TurnId,
    pub(crate) log: &'a TurnLog,
}

impl Follower<'_> {
    /// Follows a parked turn, beginning after the events that the log has. Cancel-safe.
    pub(crate) async fn follow_parked(&self, attempt: u32) -> Followed {
        let shown = self.log.from(0).iter().map(shown_count).sum();
        let progress = FollowerProgress { queued: true, started: true, was_parked: true, attempt, shown };
        self.follow_store(progress).await
    }

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
        self.follow_store(FollowerProgress::default()).await
    }

    async fn follow_store(&self, progress: FollowerProgress) -> Followed {
        let end = match self.stored(progress).await {
            Ok(None) => return Followed::Gone,
            Ok(Some(end)) => end,
            Err(error) => TurnEvent::Failed(Arc::new(error)),
        };
        self.log.push(end);
        Followed::ToTheEnd
    }

    /// Follows a turn of another process in the store, and returns its last event. `None` if the store has forgotten
    /// the turn.
    async fn stored(&self, mut progress: FollowerProgress) -> Result<Option<TurnEvent>, GatewayError> {
        let scope = Scope::of(self.principal);
        // Subscribes before the first read, so that no later change is missed.
        let mut changed = self.gateway.store.subscribe(Notice::TurnChanged(self.turn));
        loop {
            let Some(record) = self.gateway.store.turn(&scope, self.turn).await? else { return Ok(None) };
            let record = record.as_it_stands();
            if progress.shown > 0 && progress.attempt != record.attempt {
                return Ok(Some(TurnEvent::Failed(Arc::new(GatewayError::CutOff(another_attempt())))));
            }
            progress.was_parked |= record.parked;
            let live = self.gateway.live.get(self.turn).filter(|_| progress.was_parked && !record.parked);
            if let Some(live) = live {
                // This process has resumed the turn: its log has each piece at once.
                return Ok(Some(self.rest_of(&live.log, &progress).await));
            }
            self.tell(&record, &mut progress);
            if !record.state.is_live() {
                return Ok(Some(self.outcome(&record)));
            }
            self.tell_parts(&scope, record.streamed_through, &mut progress, &mut changed).await?;
        }
    }

    /// Pushes the events of another log of the turn that this log does not have yet. Returns the last event.
    async fn rest_of(&self, log: &Arc<TurnLog>, progress: &FollowerProgress) -> TurnEvent {
        let mut events = log.subscribe();
        let mut known = progress.shown;
        loop {
            let event = events.next().await;
            let is_known = match &event {
                TurnEvent::Finished(_) | TurnEvent::Failed(_) => return event,
                TurnEvent::Queued { .. } => progress.queued,
                TurnEvent::Started { .. } => progress.started,
                TurnEvent::Step { .. } | TurnEvent::Text(_) | TurnEvent::Delta(_) => false,
            };
            let count = shown_count(&event);
            match without_first(known, event) {
                Some(new) if !is_known => {
                    known = known.saturating_sub(count);
                    self.log.push(new);
                }
                _ => known = known.saturating_sub(count),
            }
        }
    }

    /// Pushes the parts that are written after `through`, and reads nothing else. Returns when the whole turn has to be
    /// read again: it no longer runs, or has made a step.
    async fn tell_parts(
        &self,
        scope: &Scope,
        mut through: StreamedThrough,
        progress: &mut FollowerProgress,
        changed: &mut Subscription,
    ) -> Result<(), GatewayError> {
        loop {
            tokio::select! {
                biased;
                // This process has resumed the turn, so its log is read from now on.
                () = self.gateway.live.until_resumed(self.turn), if progress.was_parked => return Ok(()),
                notified = tokio::time::timeout(LOOK_AGAIN, changed.notified()) => {
                    notified.unwrap_or(Ok(()))?;
                }
            }
            let Some(part) = self.gateway.store.streamed_since(scope, self.turn, through).await? else { return Ok(()) };
            let pieces = record::shown_steps(&part.shown.record, &part.shown.text).unwrap_or_default();
            for piece in pieces {
                let event = match piece {
                    Piece::Text(run) => TurnEvent::text(run.into_owned()),
                    Piece::Delta(delta) => TurnEvent::delta(delta.into_owned()),
                    Piece::Compacted(_) => return Ok(()),
                };
                progress.shown += shown_count(&event);
                self.log.push(event);
            }
            through = part.through;
        }
    }

    /// Pushes the events of the record that the log does not have yet.
    fn tell(&self, record: &TurnRecord, progress: &mut FollowerProgress) {
        let begun = || SessionView { rotated: false, facts: Arc::clone(&record.began), ..self.view(record) };
        if !record.has_begun {
            if !std::mem::replace(&mut progress.queued, true) {
                self.log.push(TurnEvent::Queued { turn: record.id, since: record.started_at, session: begun() });
            }
            return;
        }
        if !std::mem::replace(&mut progress.started, true) {
            let (turn, started_at) = (record.id, record.started_at);
            let message = first_message(&record.steps);
            let message = message.unwrap_or_else(|| MessageId::answered(turn, record.attempt, 0));
            self.log.push(TurnEvent::Started { turn, started_at, session: Some(begun()), message });
        }
        progress.attempt = record.attempt;
        let mut known = progress.shown;
        for event in replay(record, &self.view(record)) {
            let count = shown_count(&event);
            let Some(new) = without_first(known, event) else {
                known -= count;
                continue;
            };
            progress.shown += count - std::mem::take(&mut known);
            self.log.push(new);
        }
    }

    fn view(&self, record: &TurnRecord) -> SessionView {
        SessionView::of(record, self.requested.clone())
    }

    fn outcome(&self, record: &TurnRecord) -> TurnEvent {
        if record.state != TurnState::Completed {
            let failure = record.why_unanswered();
            return TurnEvent::Failed(Arc::new(match record.cut_off {
                true => GatewayError::CutOff(failure),
                false => GatewayError::Turn(failure),
            }));
        }
        let answer = stored_answer(record).unwrap_or_else(|| {
            // The answer was deleted from its conversation.
            Answer::of_nothing(record.finish.clone().unwrap_or_else(unknown_finish))
        });
        TurnEvent::Finished(Arc::new(Finished {
            turn: record.id,
            tenant: self.principal.tenant,
            started_at: record.started_at,
            message: record.said().last().map_or_else(|| Arc::new(message_of(record, &answer)), Arc::clone),
            answer,
            steps: record.steps.clone(),
            session: Some(self.view(record)),
        }))
    }
}

/// Which events a follower has pushed.
#[derive(Default)]
struct FollowerProgress {
    queued: bool,
    started: bool,
    /// Whether the turn was parked, so that this process may resume it.
    was_parked: bool,
    /// The attempt whose events were pushed.
    attempt: u32,
    /// How many pieces and steps of it were pushed.
    shown: usize,
}

/// The failure of a follower that has pushed a part of one attempt when the next attempt begins.
fn another_attempt() -> TurnFailure {
    let message = "the turn is tried again from its beginning; send the request again to read that";
    TurnFailure::new(FailureCode::Abandoned, message)
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

/// How many pieces and steps an event has, between the beginning of a turn and its end.
fn shown_count(event: &TurnEvent) -> usize {
    match event {
        TurnEvent::Text(run) => run.count(),
        TurnEvent::Step { .. } | TurnEvent::Delta(_) => 1,
        TurnEvent::Queued { .. } | TurnEvent::Started { .. } | TurnEvent::Finished(_) | TurnEvent::Failed(_) => 0,
    }
}

/// What is left of an event without its first pieces.
fn without_first(pieces: usize, event: TurnEvent) -> Option<TurnEvent> {
    match &event {
        _ if pieces == 0 => Some(event),
        _ if pieces >= shown_count(&event) => None,
        TurnEvent::Text(run) => Some(TurnEvent::text(run.pieces().skip(pieces).collect())),
        _ => Some(event),
    }
}

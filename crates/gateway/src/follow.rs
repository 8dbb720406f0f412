//! Joining a turn that somebody else asked for: the same request, sent again.

use std::sync::Arc;
use std::time::Duration;

use herma_model::generation::Finish;
use herma_model::turn::FailureCode;
use herma_model::{FinishReason, TurnFailure, TurnId, TurnState};
use herma_store::{Scope, StoreError, TurnRecord};
use herma_wire::chat::answer_of;

use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::log::{Finished, SessionView, TurnEvent, TurnLog};
use crate::request::TurnRequest;

/// How often the store is asked about a turn that another process runs.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Repeats a turn's events to another log, from its beginning to its end. Cancel-safe.
pub(crate) async fn follow(gateway: &Gateway, request: &TurnRequest, turn: TurnId, log: &TurnLog) {
    if let Some(live) = gateway.live.get(turn) {
        let mut events = live.log.subscribe();
        loop {
            let event = events.next().await;
            let ended = matches!(event, TurnEvent::Finished(_) | TurnEvent::Failed(_));
            log.push(event);
            if ended {
                return;
            }
        }
    }
    log.push(match stored(gateway, request, turn, log).await {
        Ok(finished) => TurnEvent::Finished(Arc::new(finished)),
        Err(error) => TurnEvent::Failed(Arc::new(error)),
    });
}

/// Waits for the outcome of a turn that is not this process' and reads it.
async fn stored(
    gateway: &Gateway,
    request: &TurnRequest,
    turn: TurnId,
    log: &TurnLog,
) -> Result<Finished, GatewayError> {
    let principal = &request.principal;
    let scope = Scope::of(principal);
    let mut told = None;
    loop {
        let record = gateway.store.turn(&scope, turn).await?.ok_or(GatewayError::NotFound)?;
        if !record.state.is_live() {
            return outcome(request, record);
        }
        if told != Some(record.state) {
            told = Some(record.state);
            log.push(progress(request, &record));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What a listener can be told of a turn that has not ended.
fn progress(request: &TurnRequest, record: &TurnRecord) -> TurnEvent {
    let session = view(request, record);
    if record.state == TurnState::Running {
        TurnEvent::Started { turn: record.id, started_at: record.started_at, session, message: None }
    } else {
        TurnEvent::Queued(session)
    }
}

fn view(request: &TurnRequest, record: &TurnRecord) -> SessionView {
    SessionView {
        facts: Arc::clone(&record.facts),
        requested: request.place.name(),
        resolution: record.resolution,
        rotated: record.rotated,
    }
}

fn outcome(request: &TurnRequest, record: TurnRecord) -> Result<Finished, GatewayError> {
    if record.state != TurnState::Completed {
        let unknown = || TurnFailure::new(FailureCode::Internal, "the turn ended without an answer");
        return Err(GatewayError::Turn(record.failure.unwrap_or_else(unknown)));
    }
    let Some(message) = record.answer.last() else {
        return Err(GatewayError::Store(StoreError::Unavailable("the turn's answer is missing".to_owned())));
    };
    let session = view(request, &record);
    let finish = record.finish.unwrap_or(Finish {
        reason: FinishReason::Stop,
        usage: None,
        model: None,
        extra: Default::default(),
    });
    Ok(Finished {
        turn: record.id,
        tenant: request.principal.tenant,
        started_at: record.started_at,
        answer: answer_of(&message.said, finish),
        message: Arc::clone(message),
        compactions: record.compactions.clone(),
        session,
    })
}

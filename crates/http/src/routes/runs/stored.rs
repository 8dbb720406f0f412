//! Stored runs: what is stored of their request, and the routes that show and stop them.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use herma_gateway::{SessionView, session_object, stored_answer};
use herma_model::{Principal, RecallStatus, RunId, TurnState};
use herma_store::TurnRecord;
use herma_wire::responses::Echo;
use herma_wire::runs::{PendingCall, RunEnding, RunObject, RunOutput, RunState};
use serde_json::{Value, json};

use super::{ROUTE, run_id, unknown};
use crate::app::Shared;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::json;
use crate::path::Named;

/// What is stored of a request, so that its run can be shown again.
pub(super) struct StoredRun {
    /// The name that the request used for its conversation.
    pub(super) requested: Option<String>,
    pub(super) model: String,
    pub(super) echo: Echo,
}

impl StoredRun {
    pub(super) fn to_json(&self) -> String {
        let Self { requested, model, echo } = self;
        json!({ "requested": requested, "model": model, "echo": echo.to_json() }).to_string()
    }

    fn from_json(json: &str) -> Option<Self> {
        let stored: Value = serde_json::from_str(json).ok()?;
        Some(Self {
            requested: stored["requested"].as_str().map(str::to_owned),
            model: stored["model"].as_str()?.to_owned(),
            echo: Echo::from_json(stored["echo"].as_str()?)?,
        })
    }
}

/// `GET /v1/runs/{id}`.
pub(crate) async fn show(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let (record, stored) = record(&app, &principal, run_id(&id)?).await?;
    Ok(json::from_bytes(stored_object(&record, &stored)))
}

/// `POST /v1/runs/{id}/stop`: answers when the run has ended. A run that had ended before does not change.
pub(crate) async fn stop(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let id = run_id(&id)?;
    record(&app, &principal, id).await?;
    app.gateway.cancel(&principal, id.turn()).await.map_err(Dialect::Runs.error_mapper())?;
    let (record, stored) = record(&app, &principal, id).await?;
    Ok(json::from_bytes(stored_object(&record, &stored)))
}

/// A stored run as it is now.
pub(super) fn stored_object(record: &TurnRecord, stored: &StoredRun) -> Vec<u8> {
    let answer = stored_answer(record);
    let session = SessionView::of(record, stored.requested.as_deref().map(Arc::from));
    let answered_by = record.finish.as_ref().and_then(|finish| finish.model.as_deref());
    let open = record.pending.iter().filter(|asked| asked.answer.is_none());
    let pending: Vec<PendingCall<'_>> = open
        .map(|asked| PendingCall { call: &asked.call, arguments: &asked.arguments, asked_at: asked.asked_at })
        .collect();
    let object = RunObject {
        id: record.id.as_run(),
        state: &state_of(record),
        created_at: record.started_at,
        updated_at: record.ended_at.unwrap_or(record.started_at),
        model: answered_by.unwrap_or(&stored.model),
        echo: &stored.echo,
        output: &answer.as_ref().map(RunOutput::from).unwrap_or_default(),
        pending: &pending,
        memory: memory_of(record),
        session: &session_object(&session),
    };
    object.to_json()
}

/// What memory did for a run. `None` while that is not known. Without a session key, memory is off.
fn memory_of(record: &TurnRecord) -> Option<RecallStatus> {
    let is_known = record.facts.session_key.is_none() || !record.state.is_live();
    let stored = record.recall.as_ref().map(|recall| recall.status);
    stored.or(is_known.then_some(RecallStatus::Off))
}

pub(super) fn state_of(record: &TurnRecord) -> RunState {
    match record.state {
        TurnState::Queued => RunState::Queued,
        TurnState::Running if record.stopping => RunState::Stopping,
        TurnState::Running if record.parked => RunState::WaitingForApproval,
        TurnState::Running => RunState::Running,
        TurnState::Completed => RunState::Ended(RunEnding::Completed),
        TurnState::Cancelled | TurnState::Failed | TurnState::Interrupted => {
            RunState::Ended(RunEnding::from(&record.why_unanswered()))
        }
    }
}

/// The turn of a run, and what is stored of its request. A turn of another route is not found.
pub(super) async fn record(
    app: &Shared,
    principal: &Principal,
    id: RunId,
) -> Result<(TurnRecord, StoredRun), ApiError> {
    let record = app.sessions(principal).turn(id.turn(), ROUTE).await.map_err(Dialect::Runs.error_mapper())?;
    let stored = record.echo.as_deref().and_then(StoredRun::from_json).ok_or_else(unknown)?;
    Ok((record, stored))
}

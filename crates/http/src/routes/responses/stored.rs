//! Stored responses: what is stored of their request, and the routes that show, cancel and delete them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Query, State};
use axum::response::Response;
use herma_gateway::{SessionView, session_object};
use herma_model::{ConversationId, Principal, ResponseId, TurnState};
use herma_store::TurnRecord;
use herma_wire::responses::{About, Echo, ResponseError, ResponseObject, ResponseOutcome, ResponseState, output};
use serde::Serialize;
use serde_json::{Value, json};

use super::frames::ResponseFrames;
use super::{ROUTE, response_id, unknown};
use crate::app::Shared;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::json::{Json, from_bytes};
use crate::path::Named;
use crate::query::Parameters;
use crate::stream::{StreamReader, TurnStream};

/// What is stored of a request, so that its response can be shown again.
pub(super) struct StoredRequest {
    /// The name that the request used for its conversation.
    pub(super) requested: Option<String>,
    pub(super) previous: Option<String>,
    /// Whether the request named a conversation. Only then does the response name it.
    pub(super) is_attached: bool,
    pub(super) model: String,
    pub(super) echo: Echo,
}

impl StoredRequest {
    /// The stored form. It is kept small because every response has one.
    pub(super) fn to_json(&self) -> String {
        let Self { requested, previous, is_attached, model, echo } = self;
        let requested = requested.as_ref().filter(|name| Some(*name) != previous.as_ref());
        let mut stored = json!({ "model": model, "echo": echo.to_json() });
        for (name, value) in [("requested", requested), ("previous", previous.as_ref())] {
            if let Some(value) = value {
                stored[name] = json!(value);
            }
        }
        if *is_attached {
            stored["attached"] = json!(true);
        }
        stored.to_string()
    }

    fn from_json(json: &str) -> Option<Self> {
        let stored: Value = serde_json::from_str(json).ok()?;
        let previous = stored["previous"].as_str().map(str::to_owned);
        Some(Self {
            requested: stored["requested"].as_str().map(str::to_owned).or_else(|| previous.clone()),
            previous,
            is_attached: stored["attached"].as_bool().unwrap_or_default(),
            model: stored["model"].as_str()?.to_owned(),
            echo: Echo::from_json(stored["echo"].as_str()?)?,
        })
    }

    /// The part of a response that never changes.
    pub(super) fn about(self, record: &impl Identified) -> About {
        About {
            id: record.response().to_string(),
            created_at: record.began(),
            model: self.model,
            previous_response_id: self.previous,
            conversation: record.conversation().filter(|_| self.is_attached).map(|id| id.to_string()),
            echo: self.echo,
        }
    }
}

/// What a response takes from its turn: id, start and conversation.
pub(super) trait Identified {
    fn response(&self) -> ResponseId;
    fn began(&self) -> herma_model::Timestamp;
    fn conversation(&self) -> Option<ConversationId>;
}

impl Identified for TurnRecord {
    fn response(&self) -> ResponseId {
        self.id.as_response()
    }

    fn began(&self) -> herma_model::Timestamp {
        self.started_at
    }

    fn conversation(&self) -> Option<ConversationId> {
        Some(self.facts.id)
    }
}

/// `GET /v1/responses/{id}`, as one JSON object or as its stream, live or replayed.
pub(crate) async fn show(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
    query: Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let parameters =
        Parameters::of(query, &["stream", "include", "include[]", "starting_after", "include_obfuscation"])?;
    let is_true = |value: &str| value.parse().ok();
    let stream = parameters.parsed("stream", is_true, "'true' or 'false'")?.unwrap_or(false);
    let number = |value: &str| value.parse::<u64>().ok();
    let after = parameters.parsed("starting_after", number, "the sequence_number of an event")?;
    if after.is_some() && !stream {
        return Err(ApiError::invalid("starting_after needs stream=true", "starting_after"));
    }
    let (record, stored) = record(&app, &principal, response_id(&id)?).await?;
    if !stream {
        return Ok(from_bytes(stored_object(&record, stored)));
    }
    let requested = stored.requested.as_deref().map(Arc::from);
    let handle = app.gateway.read_again(&principal, record.id, requested);
    let frames = ResponseFrames::new(stored).after(after);
    TurnStream::new(&app, handle, frames, StreamReader::Replay).open().await
}

/// `POST /v1/responses/{id}/cancel`. A response that has ended does not change.
pub(crate) async fn cancel(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
) -> Result<Response, ApiError> {
    let id = response_id(&id)?;
    record(&app, &principal, id).await?;
    app.gateway.cancel(&principal, id.turn()).await.map_err(Dialect::Responses.error_mapper())?;
    let (record, stored) = record(&app, &principal, id).await?;
    Ok(from_bytes(stored_object(&record, stored)))
}

/// A stored response as it is now.
pub(super) fn stored_object(record: &TurnRecord, stored: StoredRequest) -> Vec<u8> {
    let state = state_of(record);
    // Without a message there are no items yet, the same as in the stream.
    let has_said = record.steps.iter().any(|step| step.stored_message().is_some());
    let items = if has_said { output(&record.steps, &state) } else { Vec::new() };
    let usage = record.finish.as_ref().and_then(|finish| finish.usage);
    let session = SessionView::of(record, stored.requested.as_deref().map(Arc::from));
    let mut about = stored.about(record);
    if let Some(model) = record.finish.as_ref().and_then(|finish| finish.model.clone()) {
        about.model = model;
    }
    let object = ResponseObject {
        about: &about,
        state: &state,
        completed_at: record.ended_at,
        output: &items,
        usage,
        session: Some(&session_object(&session)),
    };
    object.to_json()
}

fn state_of(record: &TurnRecord) -> ResponseState {
    let error = || ResponseError::from(&record.why_unanswered());
    match record.state {
        TurnState::Queued => ResponseState::Queued,
        TurnState::Running => ResponseState::InProgress,
        TurnState::Completed => ResponseState::Ended(
            record
                .finish
                .as_ref()
                .map_or(ResponseOutcome::Completed, |finish| ResponseOutcome::of_answer(finish.reason)),
        ),
        TurnState::Cancelled => ResponseState::Ended(ResponseOutcome::Cancelled(error())),
        TurnState::Failed | TurnState::Interrupted => ResponseState::Ended(ResponseOutcome::Failed(error())),
    }
}

/// The turn of a stored response, and what is stored of its request.
pub(super) async fn record(
    app: &Shared,
    principal: &Principal,
    id: ResponseId,
) -> Result<(TurnRecord, StoredRequest), ApiError> {
    let record = app.sessions(principal).response(id.turn(), ROUTE).await.map_err(Dialect::Responses.error_mapper())?;
    let stored = record.echo.as_deref().and_then(StoredRequest::from_json).ok_or_else(unknown)?;
    Ok((record, stored))
}

/// Says that a response was deleted.
#[derive(Serialize)]
pub(crate) struct Deleted {
    id: ResponseId,
    object: &'static str,
    deleted: bool,
}

/// `DELETE /v1/responses/{id}`. The messages stay in their conversation.
pub(crate) async fn forget(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(id): Named,
) -> Result<Json<Deleted>, ApiError> {
    let id = response_id(&id)?;
    app.sessions(&principal).forget_response(id.turn(), ROUTE).await.map_err(Dialect::Responses.error_mapper())?;
    Ok(Json(Deleted { id, object: "response", deleted: true }))
}

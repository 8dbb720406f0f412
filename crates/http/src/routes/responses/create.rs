//! `POST /v1/responses`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use herma_gateway::{
    AskWhere, ConversationRef, Finished, OnDisconnect, TurnHandle, TurnInput, TurnRequest, now, session_object,
};
use herma_model::{ConversationId, Principal, ResponseId, Timestamp, TurnState};
use herma_store::{NewResponse, TurnRecord};
use herma_wire::responses::{self, ResponseObject, ResponseOutcome, ResponseState, ResponsesRequest, Truncation};

use super::frames::ResponseFrames;
use super::stored::{Identified, StoredRequest, record, stored_object};
use super::{ROUTE, named_items};
use crate::answer;
use crate::app::Shared;
use crate::body;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::naming;
use crate::stream::{StreamReader, TurnStream};

/// Answers a request as one JSON object or as a stream, or accepts it for the background.
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked_at = now();
    let (parts, body) = request.into_parts();
    let headers = SessionHeaders::of(&parts)?.in_chat(&app, &parts.headers);
    let body = body::read(&app, &parts.headers, body).await?;
    let asked = read(&app, &principal, &body).await?;
    let (streaming, background) = (asked.stream, asked.background);
    let Submitted { handle, stored } = submit(&app, &principal, headers, asked, &body).await?;
    if streaming {
        let reader = if background { StreamReader::Background } else { StreamReader::Requester };
        TurnStream::new(&app, handle, ResponseFrames::new(stored), reader).open().await
    } else if background {
        accepted(&app, &principal, handle, asked_at).await
    } else {
        let finished = answer::finished(handle, Dialect::Responses).await?;
        Ok(response(&app, &finished, stored))
    }
}

/// Parses a request, with the items that it references by id.
pub(super) async fn read(app: &Shared, principal: &Principal, body: &[u8]) -> Result<ResponsesRequest, ApiError> {
    let named = named_items(app, principal, &responses::references(body)?, Dialect::Responses).await?;
    Ok(responses::parse_with(body, &app.known(named))?)
}

/// A submitted turn, and what is stored of its request.
pub(super) struct Submitted {
    pub(super) handle: TurnHandle,
    pub(super) stored: StoredRequest,
}

/// Submits the turn of a request that came by HTTP or WebSocket. From here on the turn runs without its client.
pub(super) async fn submit(
    app: &Shared,
    principal: &Principal,
    headers: SessionHeaders,
    asked: ResponsesRequest,
    body: &[u8],
) -> Result<Submitted, ApiError> {
    let conversation = named_conversation(app, principal, &headers, &asked).await?;
    let sessions = app.sessions(principal);
    let found = sessions.destination(conversation, headers.kind, headers.chat, headers.key.as_ref()).await;
    let destination = found.map_err(Dialect::Responses.error_mapper())?;
    let model = app.gateway.settings().resolve_model(asked.model.as_deref()).name.to_owned();
    let stored = StoredRequest {
        requested: destination.conversation.name().map(|name| name.to_string()),
        previous: asked.previous_response_id.clone(),
        is_attached: asked.conversation.is_some(),
        model,
        echo: asked.echo.clone(),
    };
    // A response that cannot be fetched is never shown again. Agents repeat tens of kilobytes of tools in each request.
    let echo = if asked.store { stored.to_json() } else { String::new() };
    let new_response = NewResponse { echo: Arc::from(echo), kept: asked.store, visible_while_queued: asked.background };
    let mut turn = answer::turn_request(principal.clone(), headers, destination, ROUTE, body);
    fill(app, &mut turn, asked);
    turn.options.response = Some(new_response);
    let handle = answer::submit(app, turn, Dialect::Responses)?;
    Ok(Submitted { handle, stored })
}

/// Answers with a response that runs in the background, as it is now.
async fn accepted(
    app: &Shared,
    principal: &Principal,
    handle: TurnHandle,
    asked_at: Timestamp,
) -> Result<Response, ApiError> {
    let (turn, session) = answer::accepted(handle, Dialect::Responses).await?;
    let (mut record, stored) = record(app, principal, turn.as_response()).await?;
    if record.started_at >= asked_at {
        // This request began the turn. It may have ended by now, but clients expect a response that is queued or in
        // progress.
        record = TurnRecord {
            state: if record.state.is_live() { record.state } else { TurnState::Running },
            steps: Vec::new(),
            finish: None,
            ended_at: None,
            ..record
        };
    }
    Ok(answer::tracked_json(app, principal.tenant, turn, session.as_ref(), stored_object(&record, stored)))
}

/// The conversation that a request names. Without a name its input is the history of its client. Then `store: false`
/// means a stateless turn, unless the request comes under a chat of a front end and the operator keeps those.
pub(super) async fn named_conversation(
    app: &Shared,
    principal: &Principal,
    headers: &SessionHeaders,
    asked: &ResponsesRequest,
) -> Result<ConversationRef, ApiError> {
    let mut names = naming::of_headers(headers);
    naming::add_body_names(&mut names, asked, headers.key.as_ref())?;
    if asked.background && !asked.store {
        let message =
            "background must not be true when 'store' is false: what is made in the background has to be fetched";
        return Err(ApiError::invalid(message, "background"));
    }
    let conversation = app.sessions(principal).resolve(names).await.map_err(Dialect::Responses.error_mapper())?;
    let is_kept = asked.store || headers.chat.is_some() && app.settings.keep_chats;
    Ok(match conversation {
        ConversationRef::New if is_kept => ConversationRef::ByHistory,
        ConversationRef::New => ConversationRef::Stateless,
        named => named,
    })
}

/// Adds what the body says to a turn that has what the headers say.
pub(crate) fn fill(app: &Shared, turn: &mut TurnRequest, asked: ResponsesRequest) {
    let ResponsesRequest { system, instructions, messages, indices, approvals, mut params, .. } = asked;
    turn.input = TurnInput { system, instructions, messages, indices, approvals, ..TurnInput::default() };
    turn.options.model = asked.model;
    if !app.gateway.settings().tools.offer_nothing() {
        params.0.extend(asked.own_tool_params.0);
    }
    turn.options.params = Arc::new(params);
    turn.options.client_tools = Arc::new(asked.client_tools);
    turn.options.approvals = match asked.servers.is_empty() {
        true => AskWhere::Nowhere,
        false => AskWhere::InAnswer(asked.servers.into()),
    };
    turn.options.compact_at = asked.compact_threshold;
    turn.options.truncate = asked.truncation == Truncation::Auto;
    turn.options.streaming = asked.stream || asked.background;
    if asked.background {
        turn.options.on_disconnect = OnDisconnect::Finish;
    }
    turn.identity.user = asked.user;
}

impl Identified for Finished {
    fn response(&self) -> ResponseId {
        self.turn.as_response()
    }

    fn began(&self) -> herma_model::Timestamp {
        self.started_at
    }

    fn conversation(&self) -> Option<ConversationId> {
        self.session.as_ref().map(|session| session.facts.id)
    }
}

fn response(app: &Shared, finished: &Finished, stored: StoredRequest) -> Response {
    let mut about = stored.about(finished);
    if let Some(model) = &finished.answer.finish.model {
        about.model.clone_from(model);
    }
    let session = finished.session.as_ref().map(session_object);
    let state = ResponseState::Ended(ResponseOutcome::of_answer(finished.answer.finish.reason));
    let object = ResponseObject {
        about: &about,
        state: &state,
        completed_at: Some(finished.message.created_at),
        output: &responses::output(&finished.steps, &state),
        usage: finished.answer.finish.usage,
        session: session.as_ref(),
    };
    answer::whole(app, finished, object.to_json())
}

//! `POST /v1/chat/completions`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use herma_gateway::{Finished, RequestIdentity, SessionView, TurnEvent, TurnHandle, TurnRequest};
use herma_model::alias::Namespace;
use herma_model::{Alias, CreatorKind, Principal};
use herma_store::{Pin, Scope};
use herma_wire::chat::{self, ChatRequest, Head};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use sha2::{Digest, Sha256};

use crate::app::Shared;
use crate::body::{self, Delivery, TrackedBody};
use crate::error::ApiError;
use crate::headers::{self, SessionHeaders};
use crate::stream::{ChatStream, Extras, completion_id, session_object};

/// How long a stream may wait for its first word before it opens all the same.
const OPENS_AFTER: Duration = Duration::from_secs(10);

/// Answers a chat request, whole or as a stream.
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, ApiError> {
    let began = Instant::now();
    let (parts, body) = request.into_parts();
    let headers = SessionHeaders::read(&parts.headers)?;
    let body = body::read(&parts.headers, body, app.settings.max_body_bytes).await?;
    let chat = chat::parse(&body)?;
    let (alias, must_exist) = conversation(&app, &principal, &headers).await?;
    let streaming = chat.stream;
    let extras = Extras { usage: chat.include_usage, events: headers.events };
    let (model, _) = app.gateway.settings().resolve_model(chat.model.as_deref());
    let turn = turn_request(principal, headers, alias, must_exist, chat, &body);
    let handle = app.gateway.submit(turn)?;
    if streaming {
        let stream = ChatStream::new(Arc::clone(&app), handle, model, extras, began);
        open_stream(stream).await
    } else {
        whole(&app, handle, &model, began).await
    }
}

/// The name the request gives its conversation, and whether that must exist. Two names must mean the same conversation.
async fn conversation(
    app: &Shared,
    principal: &Principal,
    headers: &SessionHeaders,
) -> Result<(Option<Alias>, bool), ApiError> {
    let (Some(session), Some(conversation)) = (&headers.session, &headers.conversation) else {
        let must_exist = headers.session.is_none();
        return Ok((headers.session.clone().or_else(|| headers.conversation.clone()), must_exist));
    };
    let scope = Scope { tenant: principal.tenant, keys: principal.session_keys.clone() };
    let store = app.gateway.store();
    let by_conversation = store.conversation(&scope, conversation, Pin::Head).await?;
    let by_conversation = by_conversation.ok_or_else(|| ApiError::not_found("no conversation is known by this id"))?;
    let by_session = store.conversation(&scope, session, Pin::Head).await?;
    if by_session.is_none_or(|found| found.facts.id != by_conversation.facts.id) {
        let message =
            "X-Hermes-Session-Id and X-Hermes-Conversation-Id lead to different conversations; send one of them";
        return Err(ApiError::invalid_header("X-Hermes-Conversation-Id", message));
    }
    Ok((Some(session.clone()), true))
}

fn turn_request(
    principal: Principal,
    headers: SessionHeaders,
    alias: Option<Alias>,
    must_exist: bool,
    chat: ChatRequest,
    body: &[u8],
) -> TurnRequest {
    let mut digest = [0; 16];
    digest.copy_from_slice(&Sha256::digest(body)[..16]);
    TurnRequest {
        principal,
        alias,
        namespace: Namespace::Session,
        must_exist,
        session_key: headers.key,
        system: chat.system,
        messages: chat.messages,
        indices: chat.indices,
        model: chat.model,
        params: Arc::new(chat.params),
        streaming: chat.stream,
        policy: headers.policy,
        on_disconnect: headers.on_disconnect,
        creator: CreatorKind::Api,
        source: "api",
        identity: RequestIdentity {
            route: "chat.completions",
            body: digest,
            user: chat.user,
            sdk_attempt: headers.sdk_attempt,
            idempotency_key: headers.idempotency_key,
        },
    }
}

/// Waits for the whole answer.
async fn whole(app: &Shared, mut handle: TurnHandle, model: &str, began: Instant) -> Result<Response, ApiError> {
    loop {
        match handle.next().await {
            TurnEvent::Finished(finished) => {
                app.metrics.turn_ended("completed", began);
                app.metrics.tokens(finished.answer.finish.usage.unwrap_or_default());
                return Ok(completion(app, &finished, model));
            }
            TurnEvent::Failed(error) => {
                let error = ApiError::from(error);
                app.metrics.turn_ended(error.label(), began);
                return Err(error);
            }
            TurnEvent::Queued(_) | TurnEvent::Started { .. } | TurnEvent::Compacted(_) | TurnEvent::Delta(_) => {}
        }
    }
}

fn completion(app: &Shared, finished: &Finished, model: &str) -> Response {
    let id = completion_id(finished.turn);
    let model = finished.answer.finish.model.as_deref().unwrap_or(model);
    let head = Head { id: &id, created: finished.started_at.seconds(), model };
    let json = chat::completion(&head, &finished.answer, Some(&session_object(&finished.session)));
    let mut delivery = Delivery::of(Arc::clone(&app.gateway));
    delivery.expect(finished.tenant, finished.turn);
    let mut response = Response::new(Body::new(TrackedBody::new(json, delivery)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers::tell(headers, &finished.session);
    response
}

/// Opens the stream with its first word. Until then a failure is an answer with a status of its own.
async fn open_stream(mut stream: ChatStream) -> Result<Response, ApiError> {
    let mut session: Option<SessionView> = None;
    let patience = tokio::time::sleep(OPENS_AFTER);
    tokio::pin!(patience);
    loop {
        let event = tokio::select! {
            event = stream.handle.next() => event,
            () = &mut patience, if session.is_some() => break,
        };
        match &event {
            TurnEvent::Queued(view) | TurnEvent::Compacted(view) => session = Some(view.clone()),
            TurnEvent::Started { session: view, .. } => session = Some(view.clone()),
            TurnEvent::Finished(finished) => session = Some(finished.session.clone()),
            TurnEvent::Delta(_) => {}
            TurnEvent::Failed(error) => {
                let error = ApiError::from(Arc::clone(error));
                stream.app.metrics.turn_ended(error.label(), stream.began);
                return Err(error);
            }
        }
        let opens = matches!(event, TurnEvent::Delta(_) | TurnEvent::Finished(_));
        stream.take(event);
        if opens {
            break;
        }
    }
    let mut response = Response::new(stream.into_body());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Some(session) = &session {
        headers::tell(headers, session);
    }
    Ok(response)
}

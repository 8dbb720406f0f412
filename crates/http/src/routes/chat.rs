//! `POST /v1/chat/completions`.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use herma_gateway::{Finished, Place, RequestIdentity, SessionView, TurnEvent, TurnRequest};
use herma_model::{CreatorKind, Principal};
use herma_wire::chat::{self, ChatRequest, Head};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::answer;
use crate::app::Shared;
use crate::body;
use crate::error::ApiError;
use crate::headers::{self, SessionHeaders};
use crate::naming::Names;
use crate::stream::{ChatStream, Extras, OPENS_AFTER, completion_id, session_object};

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
    let place = Names::of(&headers).place(&app, &principal).await?;
    let streaming = chat.stream;
    let extras = Extras { usage: chat.include_usage, events: headers.events };
    let (model, _) = app.gateway.settings().resolve_model(chat.model.as_deref());
    let turn = turn_request(principal, headers, place, chat, &body);
    let handle = app.gateway.submit(turn)?;
    if streaming {
        let stream = ChatStream::new(Arc::clone(&app), handle, model, extras, began);
        open_stream(stream).await
    } else {
        let finished = answer::finished(&app, handle, began).await?;
        Ok(completion(&app, &finished, &model))
    }
}

fn turn_request(
    principal: Principal,
    headers: SessionHeaders,
    place: Place,
    chat: ChatRequest,
    body: &[u8],
) -> TurnRequest {
    TurnRequest {
        principal,
        place,
        session_key: headers.key,
        system: chat.system,
        instructions: None,
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
            body: answer::digest(body),
            user: chat.user,
            sdk_attempt: headers.sdk_attempt,
            idempotency_key: headers.idempotency_key,
        },
        response: None,
    }
}

fn completion(app: &Shared, finished: &Finished, model: &str) -> Response {
    let id = completion_id(finished.turn);
    let model = finished.answer.finish.model.as_deref().unwrap_or(model);
    let head = Head { id: &id, created: finished.started_at.seconds(), model };
    let json = chat::completion(&head, &finished.answer, Some(&session_object(&finished.session)));
    answer::whole(app, finished, json)
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
            TurnEvent::Queued(view) | TurnEvent::Compacted { session: view, .. } => session = Some(view.clone()),
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

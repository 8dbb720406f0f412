//! `POST /v1/chat/completions`.

mod frames;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use herma_gateway::{Finished, TurnInput, TurnRequest, session_object};
use herma_model::{Principal, SessionKind};
use herma_wire::chat::{self, ChatRequest, Head};

use crate::answer;
use crate::app::Shared;
use crate::body;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::front_ends;
use crate::headers::SessionHeaders;
use crate::naming;
use crate::stream::{StreamReader, TurnStream};
use frames::{ChatFrames, Extras};

/// Answers a chat request as one JSON object or as a stream.
pub(crate) async fn create(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let mut headers = SessionHeaders::of(&parts)?.in_chat(&app, &parts.headers);
    let body = body::read(&app, &parts.headers, body).await?;
    let chat = chat::parse(&body)?;
    let names = naming::of_headers(&headers);
    if names.is_empty() && front_ends::is_task(&chat.messages, chat.stream) {
        headers.kind = SessionKind::Auxiliary;
    }
    let destination = naming::destination(&app, &principal, names, &headers, Dialect::Chat).await?;
    let streaming = chat.stream;
    let extras = Extras { usage: chat.include_usage, events: headers.events };
    let model = app.gateway.settings().resolve_model(chat.model.as_deref()).name.to_owned();
    let mut turn = answer::turn_request(principal, headers, destination, "chat.completions", &body);
    fill(&mut turn, chat);
    let handle = answer::submit(&app, turn, Dialect::Chat)?;
    if streaming {
        TurnStream::new(&app, handle, ChatFrames::new(model, extras), StreamReader::Requester).open().await
    } else {
        let finished = answer::finished(handle, Dialect::Chat).await?;
        Ok(completion(&app, &finished, &model))
    }
}

/// Adds what the body says to a turn that has what the headers say.
fn fill(turn: &mut TurnRequest, chat: ChatRequest) {
    let ChatRequest { system, messages, indices, model, params, stream, user, .. } = chat;
    turn.input = TurnInput { system, messages, indices, ..TurnInput::default() };
    turn.options.model = model;
    turn.options.params = Arc::new(params);
    turn.options.streaming = stream;
    turn.identity.user = user;
}

fn completion(app: &Shared, finished: &Finished, model: &str) -> Response {
    let id = chat::completion_id(finished.turn);
    let model = finished.answer.finish.model.as_deref().unwrap_or(model);
    let head = Head { id: &id, created: finished.started_at.seconds(), model };
    let json = chat::completion(&head, &finished.answer, finished.session.as_ref().map(session_object).as_ref());
    answer::whole(app, finished, json)
}

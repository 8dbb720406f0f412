//! Hermes' `POST /api/sessions/{alias}/chat` and `…/chat/stream`: one message to an existing conversation.

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use herma_gateway::{
    AnswerForm, AskWhere, ConversationRef, Finished, GatewayError, SessionView, TurnHandle, now, session_object,
};
use herma_model::alias::Namespace;
use herma_model::{Delta, MessageId, Principal, Step, TextRun};
use herma_wire::chat::JoinedTexts;
use herma_wire::own_tools::CallEvents;
use herma_wire::responses;
use herma_wire::session_chat::{self, ChatEvents};

use super::alias;
use crate::answer;
use crate::app::Shared;
use crate::body;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::headers::SessionHeaders;
use crate::path::Named;
use crate::routes::responses::{fill, named_items};
use crate::stream::{Begun, Frames, StreamReader, TurnStream};

/// The route name that is stored with each turn.
const ROUTE: &str = "sessions.chat";

/// Answers a message as one JSON object.
pub(crate) async fn chat(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let handle = submit(&app, principal, &name, request, false).await?;
    let finished = answer::finished(handle, Dialect::Responses).await?;
    let session = finished.session.as_ref().map(session_object).ok_or_else(super::unknown)?;
    Ok(answer::whole(&app, &finished, session_chat::completion(&finished.answer, &session)))
}

/// Answers a message as a stream of events.
pub(crate) async fn chat_stream(
    State(app): State<Shared>,
    Extension(principal): Extension<Principal>,
    Named(name): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let handle = submit(&app, principal, &name, request, true).await?;
    TurnStream::new(&app, handle, SessionChatFrames::default(), StreamReader::Requester).open().await
}

async fn submit(
    app: &Shared,
    principal: Principal,
    name: &str,
    request: Request,
    streaming: bool,
) -> Result<TurnHandle, ApiError> {
    let conversation = ConversationRef::Named { alias: alias(name)?, namespace: Namespace::Session, must_exist: true };
    let (parts, body) = request.into_parts();
    let headers = SessionHeaders::of(&parts)?;
    headers.refuse_kind(
        "does not apply here: a message to a session is that session's own. Send a helper's to /v1/chat/completions",
    )?;
    let body = body::read(app, &parts.headers, body).await?;
    let named = named_items(app, &principal, &responses::references(&body)?, Dialect::Responses).await?;
    let asked = session_chat::parse(&body, &app.known(named))?;
    let mut turn = answer::turn_request(principal, headers, conversation, ROUTE, &body);
    fill(app, &mut turn, asked);
    // The answer has no place for a question.
    turn.options.approvals = AskWhere::Nowhere;
    turn.options.streaming = streaming;
    answer::submit(app, turn, Dialect::Responses)
}

/// The events of a session chat.
#[derive(Default)]
struct SessionChatFrames {
    events: Option<ChatEvents>,
    texts: JoinedTexts,
    calls: CallEvents,
}

impl Frames for SessionChatFrames {
    const LAST: &'static [u8] = herma_wire::sse::CLOSED;
    const DIALECT: Dialect = Dialect::Responses;
    const FORM: AnswerForm = AnswerForm::OneMessage;

    fn started(&mut self, begun: &Begun<'_>, _: MessageId) -> Vec<Bytes> {
        let (None, Some(session)) = (&self.events, begun.session) else { return Vec::new() };
        let (events, frames) = ChatEvents::begin(begun.turn.as_run(), &session_object(session), begun.started_at);
        self.events = Some(events);
        frames
    }

    fn step(&mut self, step: &Step, _: MessageId, session: &SessionView) -> Vec<Bytes> {
        let Some(events) = &mut self.events else { return Vec::new() };
        events.moved(&session.facts.head.id);
        self.texts.step(step);
        self.calls.step(step).iter().filter_map(|event| events.call(event, now())).collect()
    }

    fn text(&mut self, run: &TextRun, out: &mut Vec<u8>) {
        let Some(events) = &mut self.events else { return };
        let now = now();
        let separator = self.texts.before_text().into_iter().flat_map(|delta| events.delta(&delta, now));
        separator.for_each(|frame| out.extend_from_slice(&frame));
        run.pieces().for_each(|piece| out.extend_from_slice(&events.text(piece, now)));
    }

    fn delta(&mut self, delta: &Delta) -> Vec<Bytes> {
        let Some(events) = &mut self.events else { return Vec::new() };
        let separator = self.texts.separator(delta);
        separator.iter().chain([delta]).flat_map(|delta| events.delta(delta, now())).collect()
    }

    fn finished(&mut self, finished: &Finished) -> Vec<Bytes> {
        let (Some(events), Some(session)) = (self.events.take(), &finished.session) else { return Vec::new() };
        events.finish(&finished.answer, &session_object(session), now())
    }

    fn fail(&mut self, _: &GatewayError, api_error: &ApiError, _: Option<&SessionView>) -> Vec<Bytes> {
        match self.events.take() {
            Some(events) => events.fail(api_error.body(), now()),
            None => vec![herma_wire::sse::error_frame(api_error.body())],
        }
    }
}

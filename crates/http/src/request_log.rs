//! One log line for each request, written when its answer has ended.
//!
//! Handlers add what they learn by [`Notes::current`], which finds the line of the request that the task works on. A
//! line has ids, model names and counts: never message text, a key or a path that a client chose.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use bytes::Bytes;
use herma_model::{ConversationId, Usage};
use herma_telemetry::{Span, Trace, Tracer};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::{Body as _, Frame, SizeHint};

use crate::error::{ApiError, ErrorCode};
use crate::metrics::method_name;
use crate::request_id::REQUEST_ID;
use crate::request_trace;

/// The most characters of a model's name that are logged. Clients choose these names.
const MAX_MODEL_CHARACTERS: usize = 128;

tokio::task_local! {
    static CURRENT: Notes;
}

/// What is logged about a request.
#[derive(Debug, Default)]
struct LogFields {
    /// The place of the request in a trace.
    trace: Trace,
    status: Option<StatusCode>,
    error: Option<&'static str>,
    conversation: Option<ConversationId>,
    model: Option<String>,
    usage: Option<Usage>,
}

/// Where handlers note facts about the request that they answer. Outside of a request, notes are dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes(Option<Arc<Mutex<LogFields>>>);

impl Notes {
    /// The notes of the request that this task works on.
    pub(crate) fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }

    fn new(trace: Trace) -> Self {
        Self(Some(Arc::new(Mutex::new(LogFields { trace, ..LogFields::default() }))))
    }

    /// The place of the request in a trace.
    pub(crate) fn trace(&self) -> Trace {
        let fields = self.0.as_ref().map(|fields| fields.lock().unwrap_or_else(PoisonError::into_inner));
        fields.map(|fields| fields.trace.clone()).unwrap_or_default()
    }

    /// Has these be the current notes while something is answered.
    pub(crate) fn scope<F: Future>(&self, answering: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self.clone(), answering)
    }

    fn note(&self, note: impl FnOnce(&mut LogFields)) {
        if let Some(fields) = &self.0 {
            note(&mut fields.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Notes the model, by the name that the model server gets.
    pub(crate) fn model(&self, model: &str) {
        let name = match model.len() > MAX_MODEL_CHARACTERS {
            true => model.chars().take(MAX_MODEL_CHARACTERS).collect(),
            false => model.to_owned(),
        };
        self.note(|fields| fields.model = Some(name));
    }

    /// Notes the conversation that the request belongs to.
    pub(crate) fn conversation(&self, conversation: ConversationId) {
        self.note(|fields| fields.conversation = Some(conversation));
    }

    /// Notes the tokens that the model server counted.
    pub(crate) fn usage(&self, usage: Usage) {
        self.note(|fields| fields.usage = Some(usage));
    }

    /// Notes a failure that came after the stream was open, so that the status does not show it.
    pub(crate) fn failed_late(&self, error: &ApiError) {
        self.note(|fields| fields.error = Some(error.label()));
    }

    /// Notes a failure of a WebSocket message. Such a message has no HTTP status of its own.
    pub(crate) fn failed(&self, error: &ApiError) {
        self.note(|fields| (fields.status, fields.error) = (Some(error.status()), Some(error.label())));
    }
}

/// The name of a route.
enum RouteName {
    Matched(MatchedPath),
    Fixed(&'static str),
}

impl RouteName {
    fn as_str(&self) -> &str {
        match self {
            Self::Matched(path) => path.as_str(),
            Self::Fixed(name) => name,
        }
    }
}

/// The log line of one request. It is written on drop: when the answer is complete, or its client has disconnected.
pub(crate) struct LogLine {
    method: &'static str,
    route: RouteName,
    request_id: Option<HeaderValue>,
    began: Instant,
    /// Ends with the line.
    span: Span,
    notes: Notes,
    /// False until the whole answer was produced. A line that is dropped before is logged as `disconnected`.
    is_complete: bool,
}

impl LogLine {
    /// The line of a request that has its id already.
    pub(crate) fn of_request(request: &Request, tracer: &Tracer) -> Self {
        let matched = request.extensions().get::<MatchedPath>().cloned();
        let route = matched.map_or(RouteName::Fixed("none"), RouteName::Matched);
        Self::new(method_name(request.method()), route, request.headers(), tracer)
    }

    fn new(method: &'static str, route: RouteName, headers: &HeaderMap, tracer: &Tracer) -> Self {
        let request_id = headers.get(REQUEST_ID).cloned();
        let span = request_trace::begin(tracer, route.as_str(), headers);
        let notes = Notes::new(span.trace().clone());
        Self { method, route, request_id, began: Instant::now(), span, notes, is_complete: false }
    }

    pub(crate) const fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Notes the answer. If it is a stream, the line is written when that ends.
    pub(crate) fn answered_with(mut self, response: Response) -> Response {
        let error = response.extensions().get::<ErrorCode>().map(|code| code.0);
        self.notes.note(|fields| (fields.status, fields.error) = (Some(response.status()), error));
        if response.body().size_hint().exact().is_some() {
            self.is_complete = true;
            return response;
        }
        response.map(|body| Body::new(LoggedBody { body, line: self }))
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let Self { method, route, request_id, began, span, notes, is_complete } = self;
        notes.note(|LogFields { trace, status, error, conversation, model, usage }| {
            request_trace::end(span, (*method, route.as_str()), *status, *error);
            tracing::info!(
                method,
                route = route.as_str(),
                status = status.map(|status| status.as_u16()),
                error,
                conversation = conversation.map(display),
                model,
                milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                input_tokens = usage.map(|usage| usage.input),
                output_tokens = usage.map(|usage| usage.output),
                request_id = request_id.as_ref().and_then(|id| id.to_str().ok()),
                trace_id = trace.id().map(display),
                disconnected = (!*is_complete).then_some(true),
                "request"
            );
        });
    }
}

/// Writes a line for a WebSocket message, which counts as a request.
pub(crate) async fn write_message<T, E>(
    headers: &HeaderMap,
    tracer: &Tracer,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let mut line = LogLine::new("WS", RouteName::Fixed("/v1/responses"), headers, tracer);
    line.notes.note(|fields| fields.status = Some(StatusCode::OK));
    let outcome = CURRENT.scope(line.notes.clone(), work).await;
    line.is_complete = outcome.is_ok();
    outcome
}

/// A stream whose line is written when it ends.
struct LoggedBody {
    body: Body,
    line: LogLine,
}

impl http_body::Body for LoggedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.line.is_complete |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

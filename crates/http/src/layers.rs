//! What every request passes before its route, and every answer after it.
//!
//! axum keeps each layer in a box of its own and copies all of them for each request. So there are two layers only:
//! [`Entry`] for every request, and [`Guard`] for the routes that need a principal.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use tower_layer::Layer;
use tower_service::Service;

use crate::app::Shared;
use crate::auth;
use crate::linger::UnreadBody;
use crate::metrics::CountedRequest;
use crate::request_id::RequestId;
use crate::request_log::LogLine;

type Answering = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

/// Which part of the work an [`Entry`] does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// The request id and the log line.
    Outer,
    /// The metrics, and reading bodies to their end.
    Inner,
}

/// Gives a request its id and its log line, counts it, and has errors wait until its body was read.
#[derive(Clone)]
pub(crate) struct Entry {
    app: Shared,
    part: Part,
}

impl Entry {
    pub(crate) fn whole(app: &Shared) -> Self {
        Self { app: Arc::clone(app), part: Part::Whole }
    }

    /// Two layers that do the same together, for a layer that has to be between them. The inner one is first.
    pub(crate) fn split(app: &Shared) -> [Self; 2] {
        [Part::Inner, Part::Outer].map(|part| Self { app: Arc::clone(app), part })
    }
}

impl<S> Layer<S> for Entry {
    type Service = Entered<S>;

    fn layer(&self, routes: S) -> Entered<S> {
        Entered { entry: self.clone(), routes }
    }
}

/// Routes behind an [`Entry`].
#[derive(Clone)]
pub(crate) struct Entered<S> {
    entry: Entry,
    routes: S,
}

impl<S> Service<Request> for Entered<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.routes.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Answering {
        let Entry { app, part } = self.entry.clone();
        let outer = (part != Part::Inner).then(|| {
            let id = RequestId::take_over(&mut request);
            (id, LogLine::of_request(&request, &app.gateway.settings().tracer))
        });
        let counted = (part != Part::Outer).then(|| CountedRequest::of(&request));
        let unread = if part == Part::Outer { None } else { UnreadBody::share_with(&mut request) };
        let answering = self.routes.call(request);
        Box::pin(async move {
            let Ok(mut response) = match &outer {
                Some((_, line)) => line.notes().scope(answering).await,
                None => answering.await,
            };
            if let Some(mut unread) = unread {
                unread.read_before(response.status()).await;
            }
            if let Some(counted) = counted {
                counted.answered_with(&app.metrics, response.status());
            }
            if let Some((id, line)) = outer {
                response = line.answered_with(response);
                id.set_on(&mut response);
            }
            Ok(response)
        })
    }
}

/// Lets only authenticated requests in, and adds their principal to the extensions.
#[derive(Clone)]
pub(crate) struct Guard(Shared);

impl Guard {
    pub(crate) fn new(app: &Shared) -> Self {
        Self(Arc::clone(app))
    }
}

impl<S> Layer<S> for Guard {
    type Service = Guarded<S>;

    fn layer(&self, route: S) -> Guarded<S> {
        Guarded { app: Arc::clone(&self.0), route }
    }
}

/// A route behind a [`Guard`].
#[derive(Clone)]
pub(crate) struct Guarded<S> {
    app: Shared,
    route: S,
}

impl<S> Service<Request> for Guarded<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.route.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Answering {
        // The service that was found ready is called. Its copy is for the next request.
        let next = self.route.clone();
        let mut route = std::mem::replace(&mut self.route, next);
        let app = Arc::clone(&self.app);
        Box::pin(async move {
            match auth::require(&app, &mut request).await {
                Ok(()) => route.call(request).await,
                Err(refusal) => Ok(refusal.into_response()),
            }
        })
    }
}

//! A place in a trace, under which further spans begin.

use std::borrow::Cow;
use std::sync::Arc;

use herma_model::{TraceContext, TraceId};

use crate::recorder::Recorder;
use crate::span::{Span, SpanKind};
use crate::tracer::random_span;

/// A place in a trace, or none. Work that begins under it belongs to the span that is there. Clones are cheap.
#[derive(Debug, Clone, Default)]
pub struct Trace(Option<Arc<Place>>);

#[derive(Debug)]
struct Place {
    context: TraceContext,
    /// Where spans are recorded. `None` if this trace has no spans of ours.
    recorder: Option<Arc<Recorder>>,
    passes_on: bool,
}

impl Trace {
    /// No trace: no span is made, and no server is told of one.
    pub const fn none() -> Self {
        Self(None)
    }

    pub(crate) fn at(context: TraceContext, recorder: Option<Arc<Recorder>>, passes_on: bool) -> Self {
        Self(Some(Arc::new(Place { context, recorder, passes_on })))
    }

    /// Whether there is no trace.
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The id of the trace, for the log.
    pub fn id(&self) -> Option<TraceId> {
        self.0.as_ref().map(|place| place.context.trace)
    }

    /// The place itself.
    pub fn context(&self) -> Option<&TraceContext> {
        self.0.as_ref().map(|place| &place.context)
    }

    /// What another server is told, if it is told of the trace.
    pub fn passed_on(&self) -> Option<TraceContext> {
        self.0.as_ref().filter(|place| place.passes_on).map(|place| place.context.clone())
    }

    /// Begins a span under this place. If the trace is not recorded, there is none, and the place stays the same.
    pub fn begin<N: Into<Cow<'static, str>>>(&self, kind: SpanKind, name: impl FnOnce() -> N) -> Span {
        let Some(place) = &self.0 else { return Span::unrecorded(Self::none()) };
        let Some(recorder) = &place.recorder else { return Span::unrecorded(self.clone()) };
        let context = place.context.at(random_span());
        let trace = Self::at(context, Some(Arc::clone(recorder)), place.passes_on);
        Span::open(trace, Some(place.context.span), kind, name().into())
    }

    pub(crate) fn place(&self) -> Option<(&TraceContext, &Arc<Recorder>)> {
        self.0.as_ref().and_then(|place| Some((&place.context, place.recorder.as_ref()?)))
    }
}

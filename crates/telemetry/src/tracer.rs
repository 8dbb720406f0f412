//! Begins traces.

use std::sync::Arc;

use herma_model::{SpanId, TraceContext, TraceId};
use uuid::Uuid;

use crate::recorder::{QueueLimits, Recorder, SpanCounts};
use crate::sampling::Sampling;
use crate::span::{Span, SpanKind};
use crate::trace::Trace;

/// Begins traces, and decides which are recorded. Clones share one queue of spans.
#[derive(Debug, Clone, Default)]
pub struct Tracer {
    recording: Option<(Arc<Recorder>, Sampling)>,
    /// Whether other servers are not told of traces.
    keeps_to_itself: bool,
}

impl Tracer {
    /// Records no spans. A caller's `traceparent` is passed on to other servers if `passes_on` says so.
    pub const fn off(passes_on: bool) -> Self {
        Self { recording: None, keeps_to_itself: !passes_on }
    }

    /// Records spans into a bounded queue. The exporter empties it.
    pub fn recording(sampling: Sampling, limits: QueueLimits, passes_on: bool) -> Self {
        Self { recording: Some((Arc::new(Recorder::new(limits)), sampling)), keeps_to_itself: !passes_on }
    }

    /// Begins work that another process may have asked for: a span in the caller's trace, or in a new one.
    ///
    /// If the trace is not recorded, there is no span, and other servers are told the caller's place unchanged.
    pub fn begin(&self, caller: Option<TraceContext>, kind: SpanKind, name: &'static str) -> Span {
        let passes_on = !self.keeps_to_itself;
        let Some((recorder, sampling)) = &self.recording else {
            return Span::unrecorded(caller.map_or_else(Trace::none, |caller| Trace::at(caller, None, passes_on)));
        };
        let trace = caller.as_ref().map_or_else(random_trace, |caller| caller.trace);
        if !sampling.takes(trace, caller.as_ref()) {
            let new = || TraceContext { trace, span: random_span(), flags: TraceContext::flags_of(false), state: None };
            return Span::unrecorded(Trace::at(caller.unwrap_or_else(new), None, passes_on));
        }
        let parent = caller.as_ref().map(|caller| caller.span);
        let context = TraceContext {
            trace,
            span: random_span(),
            flags: caller.as_ref().map_or(0, |caller| caller.flags) | TraceContext::flags_of(true),
            state: caller.and_then(|caller| caller.state),
        };
        Span::open(Trace::at(context, Some(Arc::clone(recorder)), passes_on), parent, kind, name.into())
    }

    /// How many spans were sent and lost so far.
    pub fn counts(&self) -> SpanCounts {
        self.recording.as_ref().map(|(recorder, _)| recorder.counts()).unwrap_or_default()
    }

    /// The queue of spans, if any are recorded.
    pub(crate) fn recorder(&self) -> Option<&Arc<Recorder>> {
        self.recording.as_ref().map(|(recorder, _)| recorder)
    }
}

/// A new id of a span.
pub(crate) fn random_span() -> SpanId {
    loop {
        if let Some(id) = SpanId::new(random().to_be_bytes()) {
            return id;
        }
    }
}

fn random_trace() -> TraceId {
    loop {
        let bytes = (u128::from(random()) << 64 | u128::from(random())).to_be_bytes();
        if let Some(id) = TraceId::new(bytes) {
            return id;
        }
    }
}

/// 64 random bits. The bytes of a UUID that hold its version and variant are left out: sampling needs all bits random.
fn random() -> u64 {
    let [a, b, c, d, e, f, _, _, _, g, h, ..] = Uuid::new_v4().into_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

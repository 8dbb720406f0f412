//! Traces of requests and turns, and their export by OTLP.
//!
//! A span has ids, counts and fixed words: never message text, a key or a secret. Without an endpoint no span is made,
//! and a request that brings no `traceparent` costs nothing here.
//!
//! | module | owns |
//! |---|---|
//! | [`tracer`] | begins traces: takes over the caller's, decides whether spans are recorded |
//! | [`trace`] | a place in a trace, under which further spans begin |
//! | [`span`] | a span while it is open |
//! | [`recorder`] | the bounded queue of spans that have ended |
//! | [`sampling`] | which traces are recorded |
//! | [`otlp`] | OTLP's messages, as protobuf; pure |
//! | [`exporter`] | sends batches; knows no HTTP, the caller brings a function that does |

mod exporter;
mod otlp;
mod recorder;
mod sampling;
mod span;
mod trace;
mod tracer;

pub use exporter::{ExportSettings, Exporter, NotSent, Signal};
pub use recorder::{QueueLimits, SpanCounts};
pub use sampling::Sampling;
pub use span::{Span, SpanKind, Value};
pub use trace::Trace;
pub use tracer::Tracer;

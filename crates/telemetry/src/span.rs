//! A span while it is open. Dropping it ends it.

use std::borrow::Cow;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use herma_model::{SpanId, TraceContext};

use crate::trace::Trace;

/// Most characters of a text attribute. Some texts, such as names of models, are chosen by clients.
const MAX_TEXT: usize = 256;

/// On which side of a call the work of a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Neither.
    Internal,
    /// It answers another process.
    Server,
    /// It asks another process.
    Client,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// A list with one text.
    Only(Cow<'static, str>),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(shortened(text)))
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
    }
    text
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndedSpan {
    pub(crate) context: TraceContext,
    pub(crate) parent: Option<SpanId>,
    pub(crate) kind: SpanKind,
    pub(crate) name: Cow<'static, str>,
    /// Nanoseconds since 1970.
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) attributes: Vec<(&'static str, Value)>,
    pub(crate) has_failed: bool,
}

/// A span, or only its place in a trace if it is not recorded. Dropping it ends it.
#[derive(Debug)]
pub struct Span {
    trace: Trace,
    open: Option<Box<OpenSpan>>,
}

#[derive(Debug)]
struct OpenSpan {
    began: Instant,
    /// The end is counted from `began`, so that a step of the wall clock does not change how long it took.
    ended: EndedSpan,
}

impl Span {
    pub(crate) const fn unrecorded(trace: Trace) -> Self {
        Self { trace, open: None }
    }

    pub(crate) fn open(trace: Trace, parent: Option<SpanId>, kind: SpanKind, name: Cow<'static, str>) -> Self {
        let open = trace.place().map(|(context, _)| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let began = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
            let ended = EndedSpan {
                context: context.clone(),
                parent,
                kind,
                name,
                began,
                ended: began,
                attributes: Vec::new(),
                has_failed: false,
            };
            Box::new(OpenSpan { began: Instant::now(), ended })
        });
        Self { trace, open }
    }

    /// The place under which the work of this span goes on.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Whether the span is recorded.
    pub const fn is_recorded(&self) -> bool {
        self.open.is_some()
    }

    /// Names the span anew, if it is recorded.
    pub fn rename(&mut self, name: impl FnOnce() -> String) {
        if let Some(open) = &mut self.open {
            open.ended.name = Cow::Owned(shortened(name()));
        }
    }

    /// Sets an attribute. The value is made only if the span is recorded.
    pub fn set<V: Into<Value>>(&mut self, name: &'static str, value: impl FnOnce() -> V) {
        if let Some(open) = &mut self.open {
            open.ended.attributes.push((name, value().into()));
        }
    }

    /// Marks the span as failed. The code is a fixed word, never a message.
    pub fn fail(&mut self, code: impl FnOnce() -> Cow<'static, str>) {
        if let Some(open) = &mut self.open {
            open.ended.has_failed = true;
            open.ended.attributes.push(("error.type", Value::Text(code())));
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some(open) = self.open.take() else { return };
        let OpenSpan { began, mut ended } = *open;
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        ended.ended = ended.began.saturating_add(took);
        if let Some((_, recorder)) = self.trace.place() {
            recorder.take(ended);
        }
    }
}

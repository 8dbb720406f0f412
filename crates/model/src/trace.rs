//! A place in a distributed trace, as W3C Trace Context writes it in `traceparent` and `tracestate`.
//!
//! It is no model input: it goes into headers of requests, never into their bodies.

use std::fmt;
use std::sync::Arc;

/// Longest `tracestate` that is taken over. The standard wants at least 512 characters.
const MAX_STATE: usize = 1024;
/// The flag of a trace whose spans are recorded.
const SAMPLED: u8 = 1;

/// The id of a trace. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

impl TraceId {
    /// An id of these bytes. `None` if all are zero.
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The id of a span within its trace. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

impl SpanId {
    /// An id of these bytes. `None` if all are zero.
    pub fn new(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// A place in a trace: the span under which further work belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// The flags, as they came.
    pub flags: u8,
    /// What other systems keep with the trace. It is passed on unread.
    pub state: Option<Arc<str>>,
}

impl TraceContext {
    /// Reads a `traceparent` and the `tracestate` beside it. `None` if the former is malformed: the standard wants
    /// both to be ignored then.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut parts = parent.trim().splitn(5, '-');
        let [version, trace, span, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let version: [u8; 1] = hex(version)?;
        // A later version may have further fields. This one has none.
        if version == [0xff] || (version == [0] && parts.next().is_some()) {
            return None;
        }
        let [flags] = hex(flags)?;
        // Other flags of a later version have no meaning in this one.
        let flags = if version == [0] { flags } else { flags & SAMPLED };
        let is_usable = |state: &&str| !state.is_empty() && state.len() <= MAX_STATE;
        let state = state.map(str::trim).filter(is_usable).map(Arc::from);
        Some(Self { trace: TraceId::new(hex(trace)?)?, span: SpanId::new(hex(span)?)?, flags, state })
    }

    /// The place of another span of the same trace.
    pub fn at(&self, span: SpanId) -> Self {
        Self { span, ..self.clone() }
    }

    /// Whether the caller records this trace.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The flags of a trace that is recorded, or not.
    pub const fn flags_of(is_sampled: bool) -> u8 {
        if is_sampled { SAMPLED } else { 0 }
    }

    /// The value of the header `traceparent`.
    pub fn to_parent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// Bytes from lower-case hexadecimal digits, two for each byte.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_reads_and_writes_back() {
        let context = TraceContext::parse(PARENT, Some("vendor=1,other=x")).unwrap();
        assert_eq!(context.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!((context.is_sampled(), context.state.as_deref()), (true, Some("vendor=1,other=x")));
        assert_eq!(context.to_parent(), PARENT);
    }

    #[test]
    fn a_malformed_traceparent_is_ignored() {
        for parent in [
            "",
            "00",
            "nonsense",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c8031éc-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(parent, None), None, "{parent}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_the_first() {
        let later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-what-will-be";
        assert_eq!(TraceContext::parse(later, None).unwrap().to_parent(), PARENT);
    }

    #[test]
    fn a_state_that_is_too_long_is_left_out() {
        let long = "v=".to_owned() + &"x".repeat(MAX_STATE);
        assert_eq!(TraceContext::parse(PARENT, Some(&long)).unwrap().state, None);
        assert_eq!(TraceContext::parse(PARENT, Some("")).unwrap().state, None);
    }
}

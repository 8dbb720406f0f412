//! The trace of a request: taken over from `traceparent`, or begun here if spans are recorded.

use std::borrow::Cow;

use herma_model::TraceContext;
use herma_telemetry::{Span, SpanKind, Tracer};
use http::{HeaderMap, HeaderName, StatusCode};

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACE_STATE: HeaderName = HeaderName::from_static("tracestate");

/// Routes that programs ask every few seconds. They have no spans.
const UNTRACED: [&str; 5] = ["/health", "/v1/health", "/health/ready", "/health/detailed", "/metrics"];

/// Begins the span of a request.
pub(crate) fn begin(tracer: &Tracer, route: &str, headers: &HeaderMap) -> Span {
    let caller = context(headers);
    if UNTRACED.contains(&route) {
        return Tracer::off(false).begin(caller, SpanKind::Server, "");
    }
    tracer.begin(caller, SpanKind::Server, "request")
}

/// The caller's place in its trace. A malformed `traceparent` is ignored, as the standard wants it.
fn context(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACE_PARENT).iter();
    let parent = parents.next()?.to_str().ok()?;
    if parents.next().is_some() {
        return None;
    }
    let states: Vec<_> = headers.get_all(TRACE_STATE).iter().filter_map(|state| state.to_str().ok()).collect();
    TraceContext::parse(parent, Some(&states.join(",")))
}

/// Notes how the request was answered. The span ends when it is dropped.
pub(crate) fn end(
    span: &mut Span,
    (method, route): (&'static str, &str),
    status: Option<StatusCode>,
    error: Option<&'static str>,
) {
    span.rename(|| format!("{method} {route}"));
    span.set("http.request.method", || method);
    span.set("http.route", || route.to_owned());
    if let Some(status) = status {
        span.set("http.response.status_code", || u64::from(status.as_u16()));
    }
    // A refusal is the client's error, so the span of the server has not failed.
    let is_ours = status.is_none_or(|status| status.is_server_error() || status.is_success());
    match error {
        Some(code) if is_ours => span.fail(|| Cow::Borrowed(code)),
        Some(code) => span.set("error.type", || code),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn states_of_several_headers_are_one() {
        let mut headers = HeaderMap::from_iter([(TRACE_PARENT, HeaderValue::from_static(PARENT))]);
        headers.append(TRACE_STATE, HeaderValue::from_static("a=1"));
        headers.append(TRACE_STATE, HeaderValue::from_static("b=2"));
        assert_eq!(context(&headers).unwrap().state.as_deref(), Some("a=1,b=2"));
    }

    #[test]
    fn two_parents_are_none() {
        let mut headers = HeaderMap::from_iter([(TRACE_PARENT, HeaderValue::from_static(PARENT))]);
        headers.append(TRACE_PARENT, HeaderValue::from_static(PARENT));
        assert_eq!(context(&headers), None);
    }
}

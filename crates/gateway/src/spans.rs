//! What the spans of a turn are called and what they say. `docs/OPERATIONS.md` lists them.
//!
//! Attributes are ids, counts, names of models and tools, and fixed words: never text of a message.

use std::borrow::Cow;

use herma_model::generation::{Finish, ModelFailureKind};
use herma_model::{ConversationId, ModelEvent, ModelFailure, TraceContext, TurnId};
use herma_telemetry::{Span, SpanKind, Trace, Value};
use herma_upstream::ModelServer;

use crate::error::GatewayError;
use crate::log::TurnEvent;

/// The span of a turn, in one process: from its request to its end or its parking.
pub(crate) const TURN: &str = "turn";
/// From the request to the lease. It contains the wait in the queue.
pub(crate) const ADMISSION: &str = "admission";
/// From the decision to compact to the compaction on disk. It contains the calls for a summary.
pub(crate) const COMPACTION: &str = "compaction";
/// The recall from long-term memory.
pub(crate) const RECALL: &str = "recall";
/// The end of a turn, until it is on disk.
pub(crate) const COMMIT: &str = "commit";

/// The reading of a finished conversation for facts. It is a trace of its own, because no request waits for it.
pub(crate) const READING: &str = "reading";

/// What a model is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A turn.
    Turn,
    /// A summary.
    Summary,
    /// A title.
    Title,
    /// The facts of a finished conversation.
    Facts,
    /// A request that is passed on as it is.
    PassedOn,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Summary => "summary",
            Self::Title => "title",
            Self::Facts => "facts",
            Self::PassedOn => "passed_on",
        }
    }
}

/// Where a model call belongs.
#[derive(Clone, Copy)]
pub(crate) struct Traced<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) conversation: Option<ConversationId>,
    pub(crate) purpose: Purpose,
}

/// The span of a call of a model server. It follows OpenTelemetry's conventions for generative AI.
pub(crate) struct ModelSpan(Span);

impl ModelSpan {
    pub(crate) fn begin(at: &Traced<'_>, server: &dyn ModelServer, operation: &'static str, model: &str) -> Self {
        let mut span = at.trace.begin(SpanKind::Client, || format!("{operation} {model}"));
        if span.is_recorded() {
            let host = server.host();
            span.set("gen_ai.operation.name", || operation);
            // Every server speaks OpenAI's protocol. Which make it is cannot be known.
            span.set("gen_ai.provider.name", || if host.is_some() { "openai" } else { "herma" });
            span.set("gen_ai.request.model", || model.to_owned());
            span.set("herma.purpose", || at.purpose.as_str());
            if let Some(conversation) = at.conversation {
                span.set("gen_ai.conversation.id", || conversation.to_string());
            }
            if let Some(host) = host {
                let (address, port) = split_port(host);
                span.set("server.address", || address.to_owned());
                if let Some(port) = port {
                    span.set("server.port", || port);
                }
            }
        }
        Self(span)
    }

    /// What the model server is told of the trace.
    pub(crate) fn passed_on(&self) -> Option<TraceContext> {
        self.0.trace().passed_on()
    }

    /// Notes how the call ended, if one of these events says so.
    pub(crate) fn see(&mut self, events: &[ModelEvent]) {
        if !self.0.is_recorded() {
            return;
        }
        match events.last() {
            Some(ModelEvent::Finished(finish)) => self.finished(finish),
            Some(ModelEvent::Answered(answer)) => self.finished(&answer.finish),
            _ => {}
        }
    }

    fn finished(&mut self, finish: &Finish) {
        let reason = finish.reason.as_str();
        self.0.set("gen_ai.response.finish_reasons", || Value::Only(Cow::Borrowed(reason)));
        if let Some(model) = &finish.model {
            self.0.set("gen_ai.response.model", || model.clone());
        }
        if let Some(usage) = finish.usage {
            self.0.set("gen_ai.usage.input_tokens", || usage.input);
            self.0.set("gen_ai.usage.output_tokens", || usage.output);
        }
    }

    /// Notes that the call failed.
    pub(crate) fn failed(&mut self, failure: &ModelFailure) {
        if let Some(status) = failure.status {
            self.0.set("http.response.status_code", || u64::from(status));
        }
        self.0.fail(|| Cow::Borrowed(failure_word(failure.kind)));
    }
}

/// A failure of a model server as a fixed word, for spans and metrics.
pub(crate) const fn failure_word(kind: ModelFailureKind) -> &'static str {
    match kind {
        ModelFailureKind::Unreachable => "unreachable",
        ModelFailureKind::Timeout => "timeout",
        ModelFailureKind::Status => "status",
        ModelFailureKind::ContextTooLong => "context_too_long",
        ModelFailureKind::CutOff => "cut_off",
        ModelFailureKind::Nonsense => "nonsense",
    }
}

fn split_port(host: &str) -> (&str, Option<u64>) {
    match host.rsplit_once(':') {
        // The address of version 6 has colons too, but within brackets.
        Some((address, port)) if !port.ends_with(']') => (address, port.parse().ok()),
        _ => (host, None),
    }
}

/// Notes which turn a span belongs to.
pub(crate) fn of_turn(span: &mut Span, turn: TurnId, conversation: Option<ConversationId>) {
    span.set("herma.turn.id", || turn.to_string());
    if let Some(conversation) = conversation {
        span.set("gen_ai.conversation.id", || conversation.to_string());
    }
}

/// Notes how a turn ended, by its last event.
pub(crate) fn turn_ended(span: &mut Span, end: Option<&TurnEvent>) {
    match end {
        Some(TurnEvent::Finished(finished)) => {
            span.set("herma.outcome", || "completed");
            if let Some(usage) = finished.answer.finish.usage {
                span.set("gen_ai.usage.input_tokens", || usage.input);
                span.set("gen_ai.usage.output_tokens", || usage.output);
            }
        }
        Some(TurnEvent::Failed(error)) => failed(span, error),
        _ => span.set("herma.outcome", || "parked"),
    }
}

/// Notes that the work of a span failed.
pub(crate) fn failed(span: &mut Span, error: &GatewayError) {
    let code = error.code();
    span.set("herma.outcome", || code);
    span.fail(|| Cow::Borrowed(code));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_told_apart_from_its_port() {
        for (host, address, port) in [
            ("api.example.com", "api.example.com", None),
            ("127.0.0.1:8080", "127.0.0.1", Some(8080)),
            ("[::1]:8080", "[::1]", Some(8080)),
            ("[::1]", "[::1]", None),
        ] {
            assert_eq!(split_port(host), (address, port));
        }
    }
}

//! Spans as OTLP's `ExportTraceServiceRequest`.

use super::protobuf::Writer;
use super::{Resource, attribute, request};
use crate::span::{EndedSpan, SpanKind, Value};

/// The status of a span that failed.
const ERROR: i64 = 2;
/// The flags say whether the parent is in another process: that it is known, and that it is.
const KNOWN_REMOTE: u32 = 1 << 8;
const IS_REMOTE: u32 = 1 << 9;

/// Writes a batch.
pub(crate) fn spans_request(resource: &Resource, spans: &[EndedSpan]) -> Vec<u8> {
    request(resource, |scope| {
        for span in spans {
            scope.message(2, |message| write(message, span));
        }
    })
}

fn write(message: &mut Writer, span: &EndedSpan) {
    let context = &span.context;
    message.bytes(1, context.trace.bytes());
    message.bytes(2, context.span.bytes());
    if let Some(state) = &context.state {
        message.text(3, state);
    }
    if let Some(parent) = &span.parent {
        message.bytes(4, parent.bytes());
    }
    message.text(5, &span.name);
    message.number(
        6,
        match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
    );
    message.fixed64(7, span.began);
    message.fixed64(8, span.ended);
    for (name, value) in &span.attributes {
        attribute(message, 9, name, |any| match value {
            Value::Text(text) => any.text(1, text),
            Value::Flag(flag) => any.flag(2, *flag),
            Value::Number(number) => any.number(3, *number),
            Value::Only(text) => any.message(5, |list| list.message(1, |first| first.text(1, text))),
        });
    }
    if span.has_failed {
        message.message(15, |status| status.number(3, ERROR));
    }
    let is_remote = span.parent.is_some() && span.kind == SpanKind::Server;
    message.fixed32(16, u32::from(context.flags) | KNOWN_REMOTE | if is_remote { IS_REMOTE } else { 0 });
}

#[cfg(test)]
mod tests {
    use herma_model::{SpanId, TraceContext};
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value;
    use prost::Message;

    use super::*;

    #[test]
    fn a_span_is_read_as_it_was_written() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let span = EndedSpan {
            context: TraceContext::parse(parent, Some("a=b")).unwrap(),
            parent: SpanId::new([7; 8]),
            kind: SpanKind::Server,
            name: "turn".into(),
            began: 1_700_000_000_000_000_000,
            ended: 1_700_000_000_000_000_300,
            attributes: vec![
                ("text", "ä".into()),
                ("number", Value::Number(-5)),
                ("flag", true.into()),
                ("only", Value::Only("stop".into())),
            ],
            has_failed: true,
        };
        let bytes = spans_request(&[("service.name".to_owned(), "herma".to_owned())], &[span.clone(), span]);
        let read = ExportTraceServiceRequest::decode(&bytes[..]).unwrap();
        let resource = &read.resource_spans[0];
        assert_eq!(resource.resource.as_ref().unwrap().attributes[0].key, "service.name");
        let scope = &resource.scope_spans[0];
        assert_eq!((scope.scope.as_ref().unwrap().name.as_str(), scope.spans.len()), ("herma", 2));
        let read = &scope.spans[1];
        assert_eq!((read.trace_id[0], read.span_id[0], &read.parent_span_id[..]), (0x0a, 0xb7, &[7; 8][..]));
        assert_eq!((read.name.as_str(), read.kind, read.trace_state.as_str()), ("turn", 2, "a=b"));
        assert_eq!(read.end_time_unix_nano - read.start_time_unix_nano, 300);
        assert_eq!((read.status.as_ref().unwrap().code, read.flags), (2, 0x301));
        let values: Vec<_> = read.attributes.iter().map(|pair| pair.value.clone().unwrap().value.unwrap()).collect();
        assert_eq!(values[0], any_value::Value::StringValue("ä".to_owned()));
        assert_eq!(values[1], any_value::Value::IntValue(-5));
        assert_eq!(values[2], any_value::Value::BoolValue(true));
        let any_value::Value::ArrayValue(list) = &values[3] else { panic!("{values:?}") };
        assert_eq!(list.values[0].value, Some(any_value::Value::StringValue("stop".to_owned())));
    }
}

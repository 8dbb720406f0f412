//! The messages of OTLP, as protobuf. Only the fields that are used are written. Pure.
//!
//! The numbers of fields are those of `opentelemetry-proto` 1.x. Tests read what is written here with its own types.

mod exposition;
mod metrics;
mod protobuf;
mod spans;

pub(crate) use metrics::metrics_request;
pub(crate) use protobuf::rejected;
pub(crate) use spans::spans_request;

use self::protobuf::Writer;

/// The name of the instrumentation.
const SCOPE: &str = "herma";

/// What describes this process: the attributes of its resource.
pub(crate) type Resource = [(String, String)];

/// Writes the request that both signals share: one resource, one scope, and its items in field 2.
fn request(resource: &Resource, items: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut request = Writer::default();
    request.message(1, |of_resource| {
        of_resource.message(1, |resource_message| {
            for (name, value) in resource {
                attribute(resource_message, 1, name, |any| any.text(1, value));
            }
        });
        of_resource.message(2, |of_scope| {
            of_scope.message(1, |scope| {
                scope.text(1, SCOPE);
                scope.text(2, env!("CARGO_PKG_VERSION"));
            });
            items(of_scope);
        });
    });
    request.into_bytes()
}

/// Writes an attribute as this field.
fn attribute(writer: &mut Writer, field: u32, name: &str, value: impl FnOnce(&mut Writer)) {
    writer.message(field, |pair| {
        pair.text(1, name);
        pair.message(2, value);
    });
}

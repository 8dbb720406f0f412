//! Writes the wire format of protobuf, and reads the one message that a collector answers with.

/// How a field is encoded.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

/// Writes fields one after the other.
#[derive(Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, WireType::Bytes);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn number(&mut self, field: u32, number: i64) {
        self.tag(field, WireType::Varint);
        self.varint(number.cast_unsigned());
    }

    pub(super) fn flag(&mut self, field: u32, flag: bool) {
        self.number(field, i64::from(flag));
    }

    pub(super) fn fixed64(&mut self, field: u32, number: u64) {
        self.tag(field, WireType::Fixed64);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn double(&mut self, field: u32, number: f64) {
        self.fixed64(field, number.to_bits());
    }

    pub(super) fn fixed32(&mut self, field: u32, number: u32) {
        self.tag(field, WireType::Fixed32);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// A list of numbers of eight bytes each.
    pub(super) fn packed64(&mut self, field: u32, numbers: impl Iterator<Item = u64>) {
        let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        self.bytes(field, &bytes);
    }

    fn tag(&mut self, field: u32, wire_type: WireType) {
        self.varint(u64::from(field << 3 | wire_type as u32));
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

/// How many items a collector says it did not take. Its answer is field 1, a message whose field 1 is the number. An
/// answer that cannot be read rejects nothing.
pub(crate) fn rejected(answer: &[u8]) -> usize {
    let partial = field_1(answer).and_then(|field| match field {
        Field::Bytes(bytes) => field_1(bytes),
        Field::Number(_) => None,
    });
    match partial {
        Some(Field::Number(number)) => usize::try_from(number).unwrap_or(0),
        Some(Field::Bytes(_)) | None => 0,
    }
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The first field, if it is number 1.
fn field_1(mut message: &[u8]) -> Option<Field<'_>> {
    let read = |message: &mut &[u8]| {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = message.split_first()?;
            *message = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    };
    match read(&mut message)? {
        0x08 => read(&mut message).map(Field::Number),
        0x0a => {
            let length = usize::try_from(read(&mut message)?).ok()?;
            message.get(..length).map(Field::Bytes)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::{ExportTracePartialSuccess, ExportTraceServiceResponse};
    use prost::Message;

    use super::*;

    #[test]
    fn what_a_collector_rejects_is_read() {
        let answer = |rejected_spans| ExportTraceServiceResponse {
            partial_success: Some(ExportTracePartialSuccess { rejected_spans, error_message: "no".to_owned() }),
        };
        for spans in [0, 1, 127, 128, 100_000] {
            assert_eq!(rejected(&answer(spans).encode_to_vec()), usize::try_from(spans).unwrap());
        }
    }

    #[test]
    fn an_answer_that_is_nonsense_rejects_nothing() {
        for answer in [&b""[..], b"{}", b"<html>", &[0x0a], &[0x0a, 0xff], &[0x0a, 2, 8, 0xff], &[0xff; 40]] {
            assert_eq!(rejected(answer), 0, "{answer:?}");
        }
        // More than there can be in a batch. The caller takes the smaller number.
        assert_eq!(rejected(&[0x0a, 3, 0x08, 0xff, 0x7f]), 16383);
    }
}

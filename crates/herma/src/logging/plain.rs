//! Writes the fields of a log line without colours: `route="/v1/responses" status=200`.
//!
//! The form is that of `tracing_subscriber`. Plain texts and numbers, which are most fields of a request's line, are
//! written without its formatting machinery, which costs ten times as much.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitOutput};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};

/// Writes fields without colours.
pub(super) struct PlainFields;

impl<'w> FormatFields<'w> for PlainFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = PlainVisitor { writer, is_first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct PlainVisitor<'w> {
    writer: Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

impl PlainVisitor<'_> {
    /// Writes a field whose value needs no escapes.
    fn put(&mut self, field: &Field, value: &[&str]) {
        let separator = if self.is_first { "" } else { " " };
        self.is_first = false;
        let parts = [separator, field.name(), "="].into_iter().chain(value.iter().copied());
        for part in parts {
            self.result = self.result.and_then(|()| fmt::Write::write_str(&mut self.writer, part));
        }
    }
}

impl Visit for PlainVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.result.is_err() {
            return;
        }
        let mut visitor = DefaultVisitor::new(self.writer.by_ref(), self.is_first);
        visitor.record_debug(field, value);
        self.result = visitor.finish();
        self.is_first = false;
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.record_debug(field, &format_args!("{value}"));
        } else if is_plain(value) {
            self.put(field, &["\"", value, "\""]);
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let mut digits = [0; 20];
        self.put(field, &[decimal(value, &mut digits)]);
    }
}

/// Whether `Debug` writes a text as it is.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\')
}

/// The decimal digits of a number.
fn decimal(mut value: u64, digits: &mut [u8; 20]) -> &str {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return str::from_utf8(&digits[at..]).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::fmt::format::DefaultFields;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{Layer, Registry};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The line that an event makes with these fields.
    fn line<F: for<'w> FormatFields<'w> + Send + Sync + 'static>(format: F, event: fn()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .without_time()
            .fmt_fields(format);
        tracing::subscriber::with_default(Registry::default().with(layer.boxed()), event);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_line_reads_as_that_of_the_library() {
        let event = || {
            let nothing: Option<u64> = None;
            tracing::info!(
                text = "plain", quoted = "a \"b\"", slash = "a\\b", tab = "a\tb", letters = "äöü", empty = "",
                number = 1_234_567_890_123_u64, zero = 0_u64, most = u64::MAX, negative = -5_i64, flag = true,
                fraction = 1.5, shown = %"x y", debug = ?Some(1), nothing, "a message with \u{1b}[31m colour"
            );
        };
        let own = line(PlainFields, event);
        assert_eq!(own, line(DefaultFields::new(), event));
        assert!(own.contains(r#"text="plain" quoted="a \"b\"""#) && own.contains("most=18446744073709551615"), "{own}");
    }

    #[test]
    fn the_first_field_of_a_line_without_a_message_has_no_space_before_it() {
        let event = || tracing::info!(text = "plain", number = 1_u64);
        assert_eq!(line(PlainFields, event), line(DefaultFields::new(), event));
    }
}

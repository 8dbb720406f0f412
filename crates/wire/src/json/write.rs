//! A buffer into which JSON is written from front to back.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

/// Writes JSON. The caller opens and closes objects and names fields; the writer adds the commas.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Makes an empty buffer.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Makes a buffer that begins with `prefix`, which is not JSON. It must end in a space, or a comma would follow it.
    pub(crate) fn after(prefix: &[u8], capacity: usize) -> Self {
        let mut writer = Self::with_capacity(capacity);
        writer.0.extend_from_slice(prefix);
        writer
    }

    /// Adds text to a prefix, which is not JSON.
    pub(crate) fn prefix(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Begins an object, as a value.
    pub(crate) fn open_object(&mut self) {
        self.separate();
        self.0.push(b'{');
    }

    /// Ends an object.
    pub(crate) fn close_object(&mut self) {
        self.0.push(b'}');
    }

    /// Begins an array, as a value.
    pub(crate) fn open_array(&mut self) {
        self.separate();
        self.0.push(b'[');
    }

    /// Ends an array.
    pub(crate) fn close_array(&mut self) {
        self.0.push(b']');
    }

    /// Names the value that comes next.
    pub(crate) fn key(&mut self, name: &str) {
        self.text(name);
        self.0.push(b':');
    }

    /// Writes a string.
    pub(crate) fn text(&mut self, text: &str) {
        self.separate();
        write_text(text, &mut self.0);
    }

    /// Writes a field whose value is a string.
    pub(crate) fn text_field(&mut self, name: &str, text: &str) {
        self.key(name);
        self.text(text);
    }

    /// Writes a value, or null if it cannot be serialised. Every value in this crate can be.
    pub(crate) fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        self.separate();
        write_value(value, &mut self.0);
    }

    /// Writes a value that is already JSON text.
    pub(crate) fn raw(&mut self, json: &str) {
        self.separate();
        self.0.extend_from_slice(json.as_bytes());
    }

    /// Writes a field.
    pub(crate) fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.key(name);
        self.value(value);
    }

    /// Writes a field whose value is a string or null.
    pub(crate) fn optional_text_field(&mut self, name: &str, text: Option<&str>) {
        match text {
            Some(text) => self.text_field(name, text),
            None => self.raw_field(name, "null"),
        }
    }

    /// Writes a field whose value is already JSON text.
    pub(crate) fn raw_field(&mut self, name: &str, json: &str) {
        self.key(name);
        self.raw(json);
    }

    /// Writes the fields of an object that is already JSON text. It must have at least one field.
    pub(crate) fn raw_fields(&mut self, object: &str) {
        self.raw(object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default());
    }

    /// Writes the fields that a model server added, except those whose names are in `own`.
    pub(crate) fn extras(&mut self, extras: &Map<String, Value>, own: &[&str]) {
        for (name, value) in extras.iter().filter(|(name, _)| !own.contains(&name.as_str())) {
            self.field(name, value);
        }
    }

    /// Returns what was written, followed by `suffix`, which is not JSON.
    pub(crate) fn into_bytes(mut self, suffix: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(suffix);
        self.0
    }

    /// Returns what was written, and keeps the buffer.
    pub(crate) fn as_text(&self) -> Cow<'_, str> {
        // The plain check is many times faster, and what was written is always UTF-8.
        str::from_utf8(&self.0).map_or_else(|_| String::from_utf8_lossy(&self.0), Cow::Borrowed)
    }

    /// Begins anew with an empty buffer of the same size.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns what was written.
    pub(crate) fn into_text(self) -> String {
        String::from_utf8(self.0).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Writes a comma if one is needed. None is needed at the start, after `{` or `[`, after a key, or after a prefix.
    ///
    /// The last byte tells: no whole value ends in one of these bytes, and a prefix ends in a space.
    fn separate(&mut self) {
        if !matches!(self.0.last(), None | Some(b'{' | b'[' | b':' | b' ')) {
            self.0.push(b',');
        }
    }
}

/// Whether a text is written without escapes. All bytes are looked at, so that the compiler can take many at a time.
fn is_plain(text: &str) -> bool {
    !text.bytes().fold(false, |special, byte| special | (byte < b' ') | (byte == b'"') | (byte == b'\\'))
}

/// Writes a string.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    if !is_plain(text) {
        return write_value(text, out);
    }
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Writes a value, or null if it cannot be serialised.
fn write_value<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_escaped_as_serde_escapes_it() {
        for text in
            ["", "plain ä 𝄞", "a\"b", "a\\b", "tab\t", "\u{0}", "del\u{7f}", "line\nend", "long and plain, then \""]
        {
            let mut writer = Writer::with_capacity(0);
            writer.text(text);
            assert_eq!(writer.into_text(), serde_json::to_string(text).unwrap());
        }
    }

    #[test]
    fn commas_come_by_themselves() {
        let mut writer = Writer::after(b"data: ", 64);
        writer.open_object();
        writer.field("a:", ": {");
        writer.key("b");
        writer.open_array();
        writer.value(&1);
        writer.open_object();
        writer.close_object();
        writer.raw("[]");
        writer.close_array();
        writer.raw_field("c", "null");
        writer.close_object();
        assert_eq!(writer.into_bytes(b"\n"), b"data: {\"a:\":\": {\",\"b\":[1,{},[]],\"c\":null}\n");
    }
}

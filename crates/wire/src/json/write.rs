//! One buffer that JSON is written into, front to back.

use serde::Serialize;
use serde_json::{Map, Value};

/// Writes JSON. The caller opens, names and closes; commas come by themselves.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// An empty buffer.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// A buffer that begins with what is not JSON.
    pub(crate) fn after(prefix: &[u8], capacity: usize) -> Self {
        let mut writer = Self::with_capacity(capacity);
        writer.0.extend_from_slice(prefix);
        writer
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
        self.value(&name);
        self.0.push(b':');
    }

    /// A value. One that cannot be JSON is written as null; none of ours is.
    pub(crate) fn value<T: Serialize + ?Sized>(&mut self, value: &T) {
        self.separate();
        let start = self.0.len();
        if serde_json::to_writer(&mut self.0, value).is_err() {
            self.0.truncate(start);
            self.0.extend_from_slice(b"null");
        }
    }

    /// A value that is JSON text already.
    pub(crate) fn raw(&mut self, json: &str) {
        self.separate();
        self.0.extend_from_slice(json.as_bytes());
    }

    /// A field.
    pub(crate) fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) {
        self.key(name);
        self.value(value);
    }

    /// A field whose value is JSON text already.
    pub(crate) fn raw_field(&mut self, name: &str, json: &str) {
        self.key(name);
        self.raw(json);
    }

    /// The fields of an object that is JSON text already, and has some.
    pub(crate) fn raw_fields(&mut self, object: &str) {
        self.raw(object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default());
    }

    /// Fields that a model server added, without those whose names are `own`.
    pub(crate) fn extras(&mut self, extras: &Map<String, Value>, own: &[&str]) {
        for (name, value) in extras.iter().filter(|(name, _)| !own.contains(&name.as_str())) {
            self.field(name, value);
        }
    }

    /// What was written, with a tail that is not JSON.
    pub(crate) fn into_bytes(mut self, suffix: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(suffix);
        self.0
    }

    /// What was written.
    pub(crate) fn into_text(self) -> String {
        String::from_utf8(self.0).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// A comma, unless this is the first thing in its object or array, the value of a key, or the beginning.
    ///
    /// The last byte tells: no whole value ends in one of these, and a prefix ends in a space.
    fn separate(&mut self) {
        if !matches!(self.0.last(), None | Some(b'{' | b'[' | b':' | b' ')) {
            self.0.push(b',');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

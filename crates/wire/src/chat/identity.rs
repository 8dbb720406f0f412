//! What a message says, gathered field by field and digested.
//!
//! Texts that stand next to each other are one text, outer whitespace and the kind of line ends do not count, and
//! an empty text is none. Every field begins with what it is, so no two messages give the same fields.

use std::borrow::Cow;

use herma_model::{Digest, Role};

use crate::json::normal_form_of_text;

/// The fields of a digest under way.
pub(super) struct Identity<'a> {
    fields: Vec<Cow<'a, str>>,
    text: Cow<'a, str>,
}

impl<'a> Identity<'a> {
    pub(super) fn of(role: Role) -> Self {
        Self { fields: vec![Cow::Borrowed(role.as_str())], text: Cow::Borrowed("") }
    }

    /// A text, or the next part of one.
    pub(super) fn text(&mut self, text: Cow<'a, str>) {
        if self.text.is_empty() {
            self.text = text;
        } else {
            self.text.to_mut().push_str(&text);
        }
    }

    /// A refusal; an empty one is none.
    pub(super) fn refusal(&mut self, refusal: Cow<'a, str>) {
        if !refusal.is_empty() {
            self.fields("refusal", [refusal]);
        }
    }

    /// An image, by its address alone.
    pub(super) fn image(&mut self, url: Cow<'a, str>) {
        self.fields("image", [url]);
    }

    /// Anything else, by its normal form.
    pub(super) fn other(&mut self, normal_form: Cow<'a, str>) {
        self.fields("other", [normal_form]);
    }

    /// A call of a function. Arguments are compared as JSON where they are JSON, and none are the same as `{}`.
    pub(super) fn call(&mut self, id: Cow<'a, str>, name: Cow<'a, str>, arguments: Cow<'a, str>) {
        let arguments = match normal_form_of_text(&arguments) {
            Some(normal) => Cow::Owned(normal),
            None if arguments.trim().is_empty() => Cow::Borrowed("{}"),
            None => arguments,
        };
        self.fields("call", [id, name, arguments]);
    }

    /// The call that a tool's message answers.
    pub(super) fn answers(&mut self, id: Cow<'a, str>) {
        self.fields("answers", [id]);
    }

    pub(super) fn digest(mut self) -> Digest {
        self.end_text();
        Digest::of_fields(self.fields.iter().map(|field| field.as_bytes()))
    }

    fn fields<const N: usize>(&mut self, what: &'static str, values: [Cow<'a, str>; N]) {
        self.end_text();
        self.fields.push(Cow::Borrowed(what));
        self.fields.extend(values);
    }

    fn end_text(&mut self) {
        let text = match std::mem::take(&mut self.text) {
            Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
            Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
        };
        if text.is_empty() {
            return;
        }
        // Looking for one character is many times faster than for two.
        let text = if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { text };
        self.fields.push(Cow::Borrowed("text"));
        self.fields.push(text);
    }
}

//! The identity of a message: its fields, collected one by one and digested.
//!
//! Adjacent texts are one text. Outer whitespace and the kind of line ends do not count, and an empty text counts as
//! absent. Every field begins with its kind, so two different messages never have the same fields.

use std::borrow::Cow;

use herma_model::{Digest, Role};

use crate::json::normal_form_of_text;

/// The fields of a digest that is being built.
pub(super) struct Identity<'a> {
    fields: Vec<Cow<'a, str>>,
    text: Cow<'a, str>,
}

impl<'a> Identity<'a> {
    pub(super) fn of(role: Role) -> Self {
        Self { fields: vec![Cow::Borrowed(role.as_str())], text: Cow::Borrowed("") }
    }

    /// Adds a text, or the next part of one.
    pub(super) fn text(&mut self, text: Cow<'a, str>) {
        if self.text.is_empty() {
            self.text = text;
        } else {
            self.text.to_mut().push_str(&text);
        }
    }

    /// Adds a refusal. An empty one counts as absent.
    pub(super) fn refusal(&mut self, refusal: Cow<'a, str>) {
        if !refusal.is_empty() {
            self.fields("refusal", [refusal]);
        }
    }

    /// Adds an image. Only its URL counts.
    pub(super) fn image(&mut self, url: Cow<'a, str>) {
        self.fields("image", [url]);
    }

    /// Adds anything else, in its normal form.
    pub(super) fn other(&mut self, normal_form: Cow<'a, str>) {
        self.fields("other", [normal_form]);
    }

    /// Adds a function call. Arguments that are JSON are compared as JSON. No arguments are the same as `{}`.
    pub(super) fn call(&mut self, id: Cow<'a, str>, name: Cow<'a, str>, arguments: Cow<'a, str>) {
        let arguments = match normal_form_of_text(&arguments) {
            Some(normal) => Cow::Owned(normal),
            None if arguments.trim().is_empty() => Cow::Borrowed("{}"),
            None => arguments,
        };
        self.fields("call", [id, name, arguments]);
    }

    /// Adds a call of a custom tool.
    pub(super) fn custom_call(&mut self, id: Cow<'a, str>, name: Cow<'a, str>, input: Cow<'a, str>) {
        self.fields("custom", [id, name, input]);
    }

    /// Adds the id of the call that a tool's message answers.
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
        // Searching for one character is many times faster than searching for two.
        let text = if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { text };
        self.fields.push(Cow::Borrowed("text"));
        self.fields.push(text);
    }
}

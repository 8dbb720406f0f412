//! The identity of a message: its fields, digested one by one.
//!
//! Adjacent texts are one text. Outer whitespace and the kind of line ends do not count, and an empty text counts as
//! absent. The `<think>` block that an answer begins with does not count either. Every field begins with its kind, so
//! two different messages never have the same fields.

use std::borrow::Cow;

use herma_model::message::without_thoughts;
use herma_model::{Digest, FieldDigest, Role};

use crate::json::normal_form_of_text;

/// A digest that is being built.
pub(super) struct Identity<'a> {
    role: Role,
    digest: FieldDigest,
    /// A text that may go on.
    text: Cow<'a, str>,
}

impl<'a> Identity<'a> {
    pub(super) fn of(role: Role) -> Self {
        let mut digest = FieldDigest::default();
        digest.add(role.as_str().as_bytes());
        Self { role, digest, text: Cow::Borrowed("") }
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
    pub(super) fn refusal(&mut self, refusal: &str) {
        if !refusal.is_empty() {
            self.fields("refusal", [refusal]);
        }
    }

    /// Adds an image. Only its URL counts.
    pub(super) fn image(&mut self, url: &str) {
        self.fields("image", [url]);
    }

    /// Adds anything else, in its normal form.
    pub(super) fn other(&mut self, normal_form: &str) {
        self.fields("other", [normal_form]);
    }

    /// Adds a function call. Arguments that are JSON are compared as JSON. No arguments are the same as `{}`.
    pub(super) fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let arguments = match normal_form_of_text(arguments) {
            Some(normal) => Cow::Owned(normal),
            None if arguments.trim().is_empty() => Cow::Borrowed("{}"),
            None => Cow::Borrowed(arguments),
        };
        self.fields("call", [id, name, &arguments]);
    }

    /// Adds a call of a custom tool.
    pub(super) fn custom_call(&mut self, id: &str, name: &str, input: &str) {
        self.fields("custom", [id, name, input]);
    }

    /// Adds the id of the call that a tool's message answers.
    pub(super) fn answers(&mut self, id: &str) {
        self.fields("answers", [id]);
    }

    pub(super) fn digest(mut self) -> Digest {
        self.end_text();
        self.digest.finish()
    }

    fn fields<const N: usize>(&mut self, what: &'static str, values: [&str; N]) {
        self.end_text();
        self.digest.add(what.as_bytes());
        values.iter().for_each(|value| self.digest.add(value.as_bytes()));
    }

    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        let text = what_is_said(self.role, &text);
        if text.is_empty() {
            return;
        }
        self.digest.add(b"text");
        // Searching for one character is many times faster than searching for two.
        if text.contains('\r') {
            self.digest.add(text.replace("\r\n", "\n").as_bytes());
        } else {
            self.digest.add(text.as_bytes());
        }
    }
}

/// The part of a text that counts.
fn what_is_said(role: Role, text: &str) -> &str {
    match role {
        Role::Assistant => without_thoughts(text.trim()),
        Role::User | Role::Tool => text.trim(),
    }
}

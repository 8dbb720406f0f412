//! Messages about failed calls, for people. Only this module quotes a server in a message, and it redacts the quote.

use std::error::Error;
use std::time::Duration;

use herma_model::ModelFailure;
use herma_model::generation::ModelFailureKind as Kind;
use serde_json::Value;

use super::context_length::is_context_too_long;
use super::pool::SendError;
use crate::decode::{DecodeError, ReportedError};
use crate::redact::{redact, shorten};

/// The longest quote of a server, in characters.
const MAX_QUOTED: usize = 300;

/// Values of headers and queries that are shorter are no secrets but words, such as `1`, which are found everywhere.
const SHORTEST_SECRET: usize = 6;

/// Builds the failures of one model server. Knows the secrets that no message may contain.
pub(super) struct FailureMessages {
    host: String,
    secrets: Vec<String>,
}

impl FailureMessages {
    /// `values` are those of headers and of the query. Each may be a secret, or a scheme and a secret.
    pub(super) fn new(host: String, api_key: Option<String>, values: impl Iterator<Item = String>) -> Self {
        let values = values.flat_map(|value| {
            let token = value.split_once(' ').map(|(_, token)| token.to_owned());
            [Some(value), token]
        });
        let long = values.flatten().filter(|value| value.trim().len() >= SHORTEST_SECRET);
        let mut secrets: Vec<String> = api_key.into_iter().chain(long).collect();
        // A value that contains another one has to be replaced first.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { host, secrets }
    }

    /// The host of the model server, and its port if the URL names one.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// There was no connection, or it broke before the answer began.
    pub(super) fn unreachable(&self, error: &SendError) -> ModelFailure {
        let cause = self.quote(&deepest_cause(error));
        self.failure(Kind::Unreachable, &format!("cannot be reached: {cause}"))
    }

    /// The HTTP client could not be built.
    pub(super) fn no_client(&self, error: &super::SettingsError) -> ModelFailure {
        self.failure(Kind::Unreachable, &format!("cannot be called: {}", self.quote(&error.to_string())))
    }

    /// The answer did not begin in time.
    pub(super) fn no_answer_within(&self, limit: Duration) -> ModelFailure {
        self.failure(Kind::Timeout, &format!("did not answer within {limit:?}"))
    }

    /// The next piece of an answer did not arrive in time.
    pub(super) fn silent_for(&self, limit: Duration) -> ModelFailure {
        self.failure(Kind::Timeout, &format!("sent nothing more for {limit:?}"))
    }

    /// The answer broke off.
    pub(super) fn cut_off(&self) -> ModelFailure {
        self.failure(Kind::CutOff, "broke its answer off")
    }

    /// The answer is larger than `limit` bytes.
    pub(super) fn too_large(&self, limit: usize) -> ModelFailure {
        self.failure(Kind::Nonsense, &format!("sent more than {limit} bytes where one answer should be"))
    }

    /// An error status, with the body that came with it.
    pub(super) fn status(&self, status: u16, body: &[u8]) -> ModelFailure {
        let parsed: Option<Value> = serde_json::from_slice(body).ok();
        let mut reported = parsed.as_ref().and_then(reported_in).unwrap_or_default();
        if parsed.is_none() && body.trim_ascii_start().first() != Some(&b'<') {
            reported.message = String::from_utf8_lossy(body).into_owned();
        }
        reported.status = Some(status);
        self.reported(&reported, &format!("answered {status}"))
    }

    /// The server sent something that is not a complete answer.
    pub(super) fn decoding(&self, error: &DecodeError) -> ModelFailure {
        match error {
            DecodeError::Reported(reported) => self.reported(reported, "reported an error"),
            DecodeError::CutOff => self.cut_off(),
            DecodeError::EmptyAnswer => self.failure(Kind::Nonsense, "answered nothing"),
            DecodeError::Nonsense(what) => {
                self.failure(Kind::Nonsense, &format!("sent {} in place of an answer", self.quote(what)))
            }
        }
    }

    fn reported(&self, reported: &ReportedError, said: &str) -> ModelFailure {
        let message = self.quote(reported.message.trim());
        let said = if message.is_empty() { said.to_owned() } else { format!("{said}: {message}") };
        let kind = if is_context_too_long(reported) { Kind::ContextTooLong } else { Kind::Status };
        ModelFailure { status: reported.status, ..self.failure(kind, &said) }
    }

    fn failure(&self, kind: Kind, what: &str) -> ModelFailure {
        ModelFailure::new(kind, format!("the model server at {} {what}", self.host))
    }

    fn quote(&self, text: &str) -> String {
        let secrets: Vec<&str> = self.secrets.iter().map(String::as_str).collect();
        shorten(&redact(text, &secrets), MAX_QUOTED)
    }
}

/// The error in the body of an error response, in any of the known shapes.
fn reported_in(body: &Value) -> Option<ReportedError> {
    let other = || {
        let text = ["message", "detail", "error_message"].into_iter().find_map(|name| body.get(name))?;
        let message = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
        Some(ReportedError { message, ..ReportedError::default() })
    };
    let first = || body.get(0).and_then(ReportedError::from_body);
    ReportedError::from_body(body).or_else(other).or_else(first)
}

/// What the innermost error says. The outer ones only tell what was tried.
fn deepest_cause(mut error: &dyn Error) -> String {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_status_is_told_with_the_servers_own_words() {
        let key = Some("hunter2".to_owned());
        let failures = FailureMessages::new("api.example.com".to_owned(), key, std::iter::empty());
        for (status, body, told) in [
            (503, "", "answered 503"),
            (502, "<html><h1>Bad Gateway</h1>", "answered 502"),
            (401, r#"{"error":{"message":"bad key hunter2"}}"#, "answered 401: bad key [redacted]"),
            (404, r#"{"detail":"no such model"}"#, "answered 404: no such model"),
            (422, r#"{"detail":[{"loc":1}]}"#, r#"answered 422: [{"loc":1}]"#),
            (429, r#"[{"error":{"message":"slow down"}}]"#, "answered 429: slow down"),
            (500, "out of memory\n", "answered 500: out of memory"),
            (500, r#"{"error":"broken"}"#, "answered 500: broken"),
        ] {
            let failure = failures.status(status, body.as_bytes());
            assert_eq!(failure.message, format!("the model server at api.example.com {told}"));
            assert_eq!((failure.kind, failure.status), (Kind::Status, Some(status)));
        }
    }

    #[test]
    fn values_of_headers_are_never_quoted() {
        let values = ["Basic hunter2!", "azure-key", "yes"].map(str::to_owned).into_iter();
        let failures = FailureMessages::new("h".to_owned(), None, values);
        let message = failures.status(401, b"yes, azure-key and Basic hunter2! (hunter2!) are wrong").message;
        assert!(message.ends_with("yes, [redacted] and [redacted] ([redacted]) are wrong"), "{message}");
    }

    #[test]
    fn a_long_message_is_cut() {
        let failures = FailureMessages::new("h".to_owned(), None, std::iter::empty());
        let message = failures.status(500, "x".repeat(5000).as_bytes()).message;
        assert!(message.chars().count() < 350 && message.ends_with('…'), "{message}");
    }
}

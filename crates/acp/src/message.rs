//! Messages of JSON-RPC: what a line is, and how answers and requests are written.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::schema::{Error, ErrorCode, RequestId};

/// A message from the editor.
#[derive(Debug)]
pub(crate) enum Message {
    /// Wants an answer.
    Request { id: RequestId, method: String, params: Option<Box<RawValue>> },
    /// Wants none.
    Notification { method: String, params: Option<Box<RawValue>> },
    /// Answers a request of the agent.
    Answer { id: RequestId, answer: Result<Box<RawValue>, Error> },
}

/// A line that is no message. It is answered with this error, without an id.
#[derive(Debug)]
pub(crate) struct NoMessage(pub(crate) Error);

#[derive(Deserialize)]
struct Envelope<'a> {
    /// `Some(None)` if the id is null.
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<Option<&'a RawValue>>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    /// `Some(None)` if the result is null: some methods answer that.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<Option<&'a RawValue>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// Tells a null from a field that is absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<&'de RawValue>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl Message {
    /// Reads a line. `None` if the line is blank.
    pub(crate) fn read(line: &[u8]) -> Option<Result<Self, NoMessage>> {
        if line.trim_ascii().is_empty() {
            return None;
        }
        if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_err() {
            return Some(Err(NoMessage(Error::new(ErrorCode::ParseError.into(), "the line is not valid JSON"))));
        }
        Some(Self::of(line).ok_or_else(|| {
            NoMessage(invalid_request("the line is no request, no notification and no answer of JSON-RPC 2.0"))
        }))
    }

    fn of(line: &[u8]) -> Option<Self> {
        let envelope: Envelope<'_> = serde_json::from_slice(line).ok()?;
        let id = match envelope.id {
            None => None,
            Some(None) => Some(RequestId::Null),
            Some(Some(raw)) => Some(serde_json::from_str(raw.get()).ok()?),
        };
        let params = envelope.params.map(ToOwned::to_owned);
        Some(match (envelope.method, id, envelope.result, envelope.error) {
            (Some(method), Some(id), None, None) => Self::Request { id, method: method.into_owned(), params },
            (Some(method), None, None, None) => Self::Notification { method: method.into_owned(), params },
            (None, Some(id), Some(result), None) => {
                Self::Answer { id, answer: Ok(result.unwrap_or(RawValue::NULL).to_owned()) }
            }
            (None, Some(id), None, Some(error)) => Self::Answer { id, answer: Err(refusal(error)) },
            _ => return None,
        })
    }
}

/// The error with which the editor answers. One that has not the form of an error stands for any failure.
fn refusal(error: &RawValue) -> Error {
    let unknown = || Error::new(ErrorCode::InternalError.into(), "the editor failed");
    serde_json::from_str(error.get()).unwrap_or_else(|_| unknown())
}

/// The request has not the form of one, or comes at the wrong time.
pub(crate) fn invalid_request(message: &str) -> Error {
    Error::new(ErrorCode::InvalidRequest.into(), message)
}

#[derive(Serialize)]
struct Written<'a, T> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RequestId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Error>,
}

impl<T> Default for Written<'_, T> {
    fn default() -> Self {
        Self { jsonrpc: "2.0", id: None, method: None, params: None, result: None, error: None }
    }
}

impl<T: Serialize> Written<'_, T> {
    fn line(&self) -> Vec<u8> {
        // The protocol's types always serialise. JSON text has no line breaks.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// A notification as a line.
pub(crate) fn notification(method: &'static str, params: impl Serialize) -> Vec<u8> {
    Written { method: Some(method), params: Some(params), ..Written::default() }.line()
}

/// A request to the editor as a line.
pub(crate) fn request(id: &RequestId, method: &'static str, params: impl Serialize) -> Vec<u8> {
    Written { id: Some(id), method: Some(method), params: Some(params), ..Written::default() }.line()
}

/// An answer as a line.
pub(crate) fn answer(id: &RequestId, result: &Result<Box<RawValue>, Error>) -> Vec<u8> {
    match result {
        Ok(result) => Written { id: Some(id), result: Some(result), ..Written::default() }.line(),
        Err(error) => Written::<()> { id: Some(id), error: Some(error), ..Written::default() }.line(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        match Message::read(line.as_bytes()) {
            None => "blank".to_owned(),
            Some(Err(NoMessage(error))) => format!("error {}", i32::from(error.code)),
            Some(Ok(Message::Request { id, method, params })) => format!("request {id} {method} {}", params.is_some()),
            Some(Ok(Message::Notification { method, .. })) => format!("notification {method}"),
            Some(Ok(Message::Answer { id, answer })) => match answer {
                Ok(result) => format!("answer {id} {result}"),
                Err(error) => format!("refusal {id} {}", error.message),
            },
        }
    }

    #[test]
    fn a_line_is_one_message_or_an_error() {
        for (line, expected) in [
            ("", "blank"),
            (" \r", "blank"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{}}"#, "request 1 a true"),
            (r#"{"jsonrpc":"2.0","id":"x","method":"a"}"#, "request x a false"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, "request null a false"),
            (r#"{"jsonrpc":"2.0","method":"a\n"}"#, "notification a\n"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "answer 1 null"),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "answer 1 {}"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#, "refusal 1 m"),
            (r#"{"jsonrpc":"2.0","id":1,"error":7}"#, "refusal 1 the editor failed"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, "error -32600"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "error -32600"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#, "error -32600"),
            (r#"{"jsonrpc":"2.0","id":1,"#, "error -32700"),
            ("nonsense", "error -32700"),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn answers_and_notifications_are_one_line() {
        let id = RequestId::Number(7);
        let result = RawValue::from_string("{}".to_owned()).unwrap();
        assert_eq!(answer(&id, &Ok(result)), br#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        let refused = answer(&RequestId::Null, &Err(invalid_request("no")));
        assert_eq!(refused, br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#);
        let told = notification("m", serde_json::json!({"text": "a\nb"}));
        assert_eq!(told, br#"{"jsonrpc":"2.0","method":"m","params":{"text":"a\nb"}}"#);
    }
}

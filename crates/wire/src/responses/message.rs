//! Messages that a client sends over the WebSocket of `/v1/responses`.

use super::params::read_field;
use super::request::read_object;
use crate::bad_request::{BadRequest, Flaw};
use crate::json::flag;

/// The only type of message that a client can send.
const CREATE: &str = "response.create";

/// Checks what a message has beside the body of a response request. That body is the message itself, and
/// [`parse`](super::parse) reads it.
///
/// `stream` has no meaning here, so any value of it is accepted. Fields that would change which events come back are
/// refused.
pub fn check_message(message: &[u8]) -> Result<(), BadRequest> {
    Ok(check(message)?)
}

/// The response that a message continues from, even if the rest of the message is wrong.
pub fn continued_response(message: &[u8]) -> Option<String> {
    let mut message = read_object(message).ok()?;
    message.take_name("type").ok().filter(|kind| kind == CREATE)?;
    message.take_name("previous_response_id").ok().map(String::from)
}

fn check(message: &[u8]) -> Result<(), Flaw> {
    let mut message = read_object(message)?;
    if message.take_name("type")? != CREATE {
        return Err(Flaw::at("type", format!("must be '{CREATE}', the only message there is")));
    }
    if read_field(&mut message, "background", flag)?.unwrap_or_default() {
        return Err(Flaw::at("background", "must not be true on a WebSocket: use POST /v1/responses"));
    }
    if !read_field(&mut message, "generate", flag)?.unwrap_or(true) {
        return Err(Flaw::at("generate", "must not be false: what prepares a turn without an answer is not built"));
    }
    if message.take("stream_id").is_some() {
        return Err(Flaw::at("stream_id", "is not supported: a connection has one turn at a time"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_for_a_response_passes_whatever_it_says_of_streaming() {
        for message in [
            r#"{"type": "response.create", "input": "hi"}"#,
            r#"{"type": "response.create", "stream": false, "background": false, "generate": true, "stream_id": null}"#,
        ] {
            assert_eq!(check_message(message.as_bytes()), Ok(()), "{message}");
        }
    }

    #[test]
    fn the_previous_response_is_known_even_if_the_message_is_refused() {
        for (message, previous) in [
            (r#"{"type": "response.create", "previous_response_id": "resp_1", "input": 7}"#, Some("resp_1")),
            (r#"{"type": "response.create", "previous_response_id": "resp_1", "background": true}"#, Some("resp_1")),
            (r#"{"type": "response.cancel", "previous_response_id": "resp_1"}"#, None),
            (r#"{"type": "response.create", "previous_response_id": null}"#, None),
            (r#"{"type": "response.create", "previous_response_id": 7}"#, None),
            ("hello", None),
        ] {
            assert_eq!(continued_response(message.as_bytes()).as_deref(), previous, "{message}");
        }
    }

    #[test]
    fn fields_that_change_the_events_are_refused_by_name() {
        for (message, param) in [
            (r"{}", Some("type")),
            (r#"{"type": 1}"#, Some("type")),
            (r#"{"type": "response.cancel"}"#, Some("type")),
            (r#"{"type": "response.create", "background": true}"#, Some("background")),
            (r#"{"type": "response.create", "generate": false}"#, Some("generate")),
            (r#"{"type": "response.create", "stream_id": "a"}"#, Some("stream_id")),
            ("hello", None),
            ("[]", None),
        ] {
            let bad = check_message(message.as_bytes()).expect_err(message);
            assert_eq!((bad.param.as_deref(), bad.code), (param, "invalid_request"), "{message}");
        }
    }
}

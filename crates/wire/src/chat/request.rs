//! The body of `POST /v1/chat/completions`.

use herma_model::{Params, Payload, Utterance};
use serde_json::value::RawValue;

use super::message::{self, RequestMessage};
use super::params;
use crate::bad_request::{BadRequest, Flaw};
use crate::json::{Object, elements, flag};

/// A chat request, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRequest {
    /// The model the client asks for, if it names one.
    pub model: Option<String>,
    /// System and developer messages, in order. They are not part of the transcript.
    pub system: Vec<Payload>,
    /// The other messages, in order. Whether tool results match the calls is not checked here.
    pub messages: Vec<Utterance>,
    /// For each of `messages`, its index in the request, so that a later error can name it.
    pub indices: Vec<usize>,
    /// Fields that go to the model server as the client wrote them.
    pub params: Params,
    /// Whether the client wants the answer as a stream.
    pub stream: bool,
    /// Whether a stream ends with a chunk that has the usage.
    pub include_usage: bool,
    /// The client's name for its end user. It is in `params` too.
    pub user: Option<String>,
}

/// Reads a chat request. If a field is repeated, the last one counts. A null field counts as absent.
///
/// Fields that Herma does not know are passed on in [`ChatRequest::params`]. `store` and `metadata` are not: they ask
/// OpenAI to store the completion. Herma stores it itself, and many servers refuse these fields. `n` may only be 1.
pub fn parse(body: &[u8]) -> Result<ChatRequest, BadRequest> {
    let text = std::str::from_utf8(body).map_err(|error| Flaw::new(format!("is not valid UTF-8: {error}")))?;
    Ok(read(Object::from_text(text)?)?)
}

fn read(mut body: Object<'_>) -> Result<ChatRequest, Flaw> {
    let messages = body.take("messages").ok_or_else(|| Flaw::at("messages", "is required"))?;
    let model = body.take_text("model")?.filter(|name| !name.is_empty()).map(String::from);
    let stream = take_flag(&mut body, "stream")?;
    let include_usage = match body.take("stream_options") {
        Some(options) => include_usage(options).map_err(|flaw| flaw.within("stream_options"))?,
        None => false,
    };
    if let Some(n) = body.take("n")
        && n.get() != "1"
    {
        return Err(Flaw::at("n", "must be 1: one choice per turn is kept"));
    }
    let (user, params) = params::read(&body)?;
    let mut request = ChatRequest {
        model,
        system: Vec::new(),
        messages: Vec::new(),
        indices: Vec::new(),
        params,
        stream,
        include_usage,
        user,
    };
    read_messages(messages, &mut request).map_err(|flaw| flaw.within("messages"))?;
    Ok(request)
}

fn read_messages(raw: &RawValue, request: &mut ChatRequest) -> Result<(), Flaw> {
    let messages = elements(raw)?;
    if messages.is_empty() {
        return Err(Flaw::new("must not be empty"));
    }
    request.messages.reserve(messages.len());
    request.indices.reserve(messages.len());
    for (index, raw) in messages.into_iter().enumerate() {
        match message::read(raw).map_err(|flaw| flaw.element(index))? {
            RequestMessage::System(payload) => request.system.push(payload),
            RequestMessage::Transcript(utterance) => {
                request.messages.push(utterance);
                request.indices.push(index);
            }
        }
    }
    Ok(())
}

fn include_usage(raw: &RawValue) -> Result<bool, Flaw> {
    take_flag(&mut Object::read(raw)?, "include_usage")
}

fn take_flag(object: &mut Object<'_>, name: &str) -> Result<bool, Flaw> {
    object.take(name).map_or(Ok(false), |raw| flag(raw).map_err(|flaw| flaw.within(name)))
}

//! The body of `POST /v1/chat/completions`.

use herma_model::{Params, Payload, Utterance};
use serde_json::value::RawValue;

use super::message::{self, RequestMessage};
use super::params;
use crate::bad_request::{BadRequest, Flaw};
use crate::json::{Object, TakeElements, Writer, flag, object_with_list};

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
    let mut messages = Messages::default();
    let (body, list) = object_with_list(text, "messages", &mut messages)?;
    let count = list.ok_or_else(|| Flaw::at("messages", "is required"))?;
    Ok(read(body, messages, count)?)
}

fn read(mut body: Object<'_>, messages: Messages, count: Result<usize, Flaw>) -> Result<ChatRequest, Flaw> {
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
    if count.map_err(|flaw| flaw.within("messages"))? == 0 {
        return Err(Flaw::at("messages", "must not be empty"));
    }
    let Messages { system, transcript, indices, .. } = messages;
    Ok(ChatRequest { model, system, messages: transcript, indices, params, stream, include_usage, user })
}

/// The messages of a request that is being read.
#[derive(Default)]
struct Messages {
    system: Vec<Payload>,
    transcript: Vec<Utterance>,
    indices: Vec<usize>,
    /// A buffer for the payload of each message.
    payload: Writer,
}

impl<'a> TakeElements<'a> for Messages {
    fn begin(&mut self) {
        self.system.clear();
        self.transcript.clear();
        self.indices.clear();
    }

    fn take(&mut self, index: usize, message: &mut Object<'a>) -> Result<(), Flaw> {
        match message::read_fields(message, &mut self.payload)? {
            RequestMessage::System(payload) => self.system.push(payload),
            RequestMessage::Transcript(utterance) => {
                self.transcript.push(utterance);
                self.indices.push(index);
            }
        }
        Ok(())
    }
}

fn include_usage(raw: &RawValue) -> Result<bool, Flaw> {
    take_flag(&mut Object::read(raw)?, "include_usage")
}

fn take_flag(object: &mut Object<'_>, name: &str) -> Result<bool, Flaw> {
    object.take(name).map_or(Ok(false), |raw| flag(raw).map_err(|flaw| flaw.within(name)))
}

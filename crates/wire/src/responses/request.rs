//! The body of `POST /v1/responses`.

use herma_model::{CallId, Params, Payload, Utterance};
use serde_json::value::RawValue;

use super::chat_style::InputStyle;
use super::echo::Echo;
use super::input::{self, Input};
use super::known::Known;
use super::params::{self, quoted, read_field};
use super::tools::ToolList;
use crate::bad_request::{BadRequest, Flaw};
use crate::chat::positive;
use crate::client_tools::ClientTools;
use crate::json::{Object, elements, flag, text};

/// What happens if the context does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Truncation {
    /// The request fails.
    #[default]
    Disabled,
    /// Earlier items may be left out.
    Auto,
}

/// A request for a response, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponsesRequest {
    /// The model the client asks for, if it names one.
    pub model: Option<String>,
    /// A system message for this request alone.
    pub instructions: Option<Payload>,
    /// System and developer messages of the input, in order. They are not part of the transcript.
    pub system: Vec<Payload>,
    /// The other messages of the input, in order. Whether tool results match the calls is not checked here.
    pub messages: Vec<Utterance>,
    /// For each of `messages`, the index of its first item in the input, so that a later error can name it.
    pub indices: Vec<usize>,
    /// Answers to questions with which an earlier response ended: the call, and whether it may be made.
    pub approvals: Vec<(CallId, bool)>,
    /// The conversation to continue: an id or a slug. Not validated here.
    pub conversation: Option<String>,
    /// The response to continue from. Never present together with `conversation`.
    pub previous_response_id: Option<String>,
    /// Whether the response can be fetched later.
    pub store: bool,
    /// Whether the client wants the response as a stream.
    pub stream: bool,
    /// Whether the response runs in the background, without a client that waits.
    pub background: bool,
    /// Fields for the model server, by the names of chat completions.
    pub params: Params,
    /// Fields about tools, for a client that brings none: they count only if Herma offers tools of its own.
    pub own_tool_params: Params,
    /// The labels of the MCP servers that the client lists. It can be asked about calls of their tools.
    pub servers: Vec<String>,
    /// The client's tools that the model knows by another name or in another form.
    pub client_tools: ClientTools,
    /// The client's name for its end user. It is in `params` too.
    pub user: Option<String>,
    /// The number of tokens from which on the context is to be compacted, if the client gives one.
    pub compact_threshold: Option<u64>,
    /// What happens if the context does not fit.
    pub truncation: Truncation,
    /// The request fields that the response object repeats.
    pub echo: Echo,
}

/// Reads a request for a response. If a field is repeated, the last one counts. A null field counts as absent.
///
/// Unknown fields are ignored: clients send them, and model servers would refuse them. A request that names both a
/// conversation and a response fails with the code `conversation_and_previous_response`.
pub fn parse(body: &[u8]) -> Result<ResponsesRequest, BadRequest> {
    parse_with(body, &Known::default())
}

/// Like [`parse`], with what is known beside the request.
pub fn parse_with(body: &[u8], known: &Known) -> Result<ResponsesRequest, BadRequest> {
    Ok(read_with_input(read_object(body)?, known, InputStyle::Items)?)
}

/// Like [`parse_with`], for a context that no model has to answer: the input may be absent or empty.
pub fn parse_context(body: &[u8], known: &Known) -> Result<ResponsesRequest, BadRequest> {
    Ok(read(read_object(body)?, known, InputStyle::Items)?)
}

/// Like [`parse_context`], for a compaction. It must name a model.
pub fn parse_compaction(body: &[u8], known: &Known) -> Result<ResponsesRequest, BadRequest> {
    let request = parse_context(body, known)?;
    match request.model {
        Some(_) => Ok(request),
        None => Err(Flaw::at("model", "is required").into()),
    }
}

/// Reads a body that must be a JSON object.
pub(crate) fn read_object(body: &[u8]) -> Result<Object<'_>, Flaw> {
    let text = std::str::from_utf8(body).map_err(|error| Flaw::new(format!("is not valid UTF-8: {error}")))?;
    Object::from_text(text)
}

/// Reads a request whose input must not be empty.
pub(crate) fn read_with_input(body: Object<'_>, known: &Known, style: InputStyle) -> Result<ResponsesRequest, Flaw> {
    let request = read(body, known, style)?;
    if request.messages.is_empty() && request.system.is_empty() && request.approvals.is_empty() {
        return Err(Flaw::at("input", "is required and must not be empty"));
    }
    Ok(request)
}

fn read(mut body: Object<'_>, known: &Known, style: InputStyle) -> Result<ResponsesRequest, Flaw> {
    if body.take("prompt").is_some() {
        return Err(Flaw::at("prompt", "is not supported: send the text as instructions and input"));
    }
    let model = body.take_text("model")?.filter(|name| !name.is_empty()).map(String::from);
    let conversation = read_field(&mut body, "conversation", conversation)?;
    let previous_response_id =
        body.take("previous_response_id").map(|raw| name(raw).map_err(|flaw| flaw.within("previous_response_id")));
    let previous_response_id = previous_response_id.transpose()?;
    if conversation.is_some() && previous_response_id.is_some() {
        let both = "must not be given together with conversation: a request continues one or the other";
        return Err(Flaw::at("previous_response_id", both).coded("conversation_and_previous_response"));
    }
    let stream = read_field(&mut body, "stream", flag)?.unwrap_or_default();
    let store = read_field(&mut body, "store", flag)?;
    let background = read_field(&mut body, "background", flag)?;
    let truncation = read_field(&mut body, "truncation", truncation)?;
    let compact_threshold = read_field(&mut body, "context_management", compact_threshold)?.flatten();
    let instructions = body.take_text("instructions")?;
    let input = body.take("input");
    let additional = ToolList::in_input(input)?;
    let params::RequestFields { params, own_tool_params, mut echo, servers, client_tools } =
        params::read(&mut body, additional, known)?;
    if let Some(instructions) = &instructions {
        echo.add("instructions", quoted(instructions));
    }
    for (name, value) in [("store", store), ("background", background)] {
        if let Some(value) = value {
            echo.add(name, value.to_string());
        }
    }
    if let Some(Truncation::Auto) = truncation {
        echo.add("truncation", "\"auto\"");
    }
    let input =
        input.map(|raw| input::read(raw, &known.items, &client_tools, style).map_err(|flaw| flaw.within("input")));
    let Input { system, messages, indices, approvals } = input.transpose()?.unwrap_or_default();
    Ok(ResponsesRequest {
        model,
        instructions: instructions.filter(|text| !text.is_empty()).map(|text| system_message(&text)),
        system,
        messages,
        indices,
        approvals,
        conversation,
        previous_response_id,
        store: store.unwrap_or(true),
        stream,
        background: background.unwrap_or_default(),
        user: params.get("user").and_then(|json| serde_json::from_str(json).ok()),
        params,
        own_tool_params,
        servers,
        client_tools,
        compact_threshold,
        truncation: truncation.unwrap_or_default(),
        echo: echo.in_order(),
    })
}

fn system_message(text: &str) -> Payload {
    Payload::from_json(format!(r#"{{"role":"system","content":{}}}"#, quoted(text)))
}

fn conversation(raw: &RawValue) -> Result<String, Flaw> {
    match raw.get().as_bytes().first() {
        Some(b'"') => name(raw),
        Some(b'{') => Ok(Object::read(raw)?.take_name("id")?.into_owned()),
        _ => Err(Flaw::new("must be a string or an object with an id")),
    }
}

fn name(raw: &RawValue) -> Result<String, Flaw> {
    let name = text(raw)?;
    if name.is_empty() { Err(Flaw::new("must not be empty")) } else { Ok(name.into_owned()) }
}

fn truncation(raw: &RawValue) -> Result<Truncation, Flaw> {
    match &*text(raw)? {
        "auto" => Ok(Truncation::Auto),
        "disabled" => Ok(Truncation::Disabled),
        _ => Err(Flaw::new("must be auto or disabled")),
    }
}

fn compact_threshold(raw: &RawValue) -> Result<Option<u64>, Flaw> {
    let mut threshold = None;
    for (index, raw) in elements(raw)?.into_iter().enumerate() {
        let read = || {
            let mut entry = Object::read(raw)?;
            if entry.take_name("type")? != "compaction" {
                return Err(Flaw::at("type", "must be compaction"));
            }
            read_field(&mut entry, "compact_threshold", |raw| {
                positive(raw)?;
                raw.get().parse::<u64>().map_err(|_| Flaw::new("must be a positive integer"))
            })
        };
        threshold = read().map_err(|flaw: Flaw| flaw.element(index))?.or(threshold);
    }
    Ok(threshold)
}

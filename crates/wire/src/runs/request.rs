//! The body of `POST /v1/runs`.

use herma_model::SessionKind;
use serde_json::value::RawValue;

use crate::bad_request::{BadRequest, Flaw};
use crate::json::{Object, flag, text};
use crate::responses::{InputStyle, Known, ResponsesRequest, read_field, read_object, read_with_input};

/// A request for a run, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRequest {
    /// The fields that it shares with a response request. `stream` has no effect, because a run always has events.
    pub request: ResponsesRequest,
    /// The session to continue or to create, as in the session header. Not validated here.
    pub session_id: Option<String>,
    /// The session key, as in its header. Not validated here.
    pub session_key: Option<String>,
    /// The kind of a new session, if the client gives one: `Main`, `Auxiliary` or `Background`.
    pub kind: Option<SessionKind>,
    /// Whether the run uses long-term memory, if the client says so.
    pub memory: Option<bool>,
}

/// Reads a request for a run. The input is a text, items, or chat messages. The other fields are those of a response
/// request. `known` has the items that
/// [`crate::responses::references()`] names.
///
/// An empty session id or key counts as absent, as in the headers.
pub fn parse(body: &[u8], known: &Known) -> Result<RunRequest, BadRequest> {
    Ok(read(read_object(body)?, known)?)
}

fn read(mut body: Object<'_>, known: &Known) -> Result<RunRequest, Flaw> {
    if body.take("conversation_history").is_some_and(|raw| raw.get() != "[]") {
        let stored = "is not supported: the history is the stored transcript of the session that session_id names";
        return Err(Flaw::at("conversation_history", stored));
    }
    let session_id = take_name(&mut body, "session_id")?;
    let session_key = take_name(&mut body, "session_key")?;
    let kind = read_field(&mut body, "kind", kind)?;
    let memory = read_field(&mut body, "memory", flag)?;
    let request = read_with_input(body, known, InputStyle::ItemsAndChat)?;
    Ok(RunRequest { request, session_id, session_key, kind, memory })
}

fn take_name(body: &mut Object<'_>, name: &str) -> Result<Option<String>, Flaw> {
    Ok(body.take_text(name)?.filter(|name| !name.is_empty()).map(String::from))
}

fn kind(raw: &RawValue) -> Result<SessionKind, Flaw> {
    match SessionKind::parse(&text(raw)?) {
        Some(kind @ (SessionKind::Main | SessionKind::Auxiliary | SessionKind::Background)) => Ok(kind),
        Some(SessionKind::Branch) => {
            Err(Flaw::new("must not be branch: POST /api/sessions/{id}/branch makes one, and session_id then names it"))
        }
        Some(SessionKind::Continuation) => Err(Flaw::new("must not be continuation: only a compaction makes one")),
        None => Err(Flaw::new("must be main, auxiliary or background")),
    }
}

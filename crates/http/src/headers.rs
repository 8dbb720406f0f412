//! The session headers of requests and answers.

use herma_gateway::{CLIENT_COMPACTION, MemoryUse, OnDisconnect, Policy, SessionView, ToolOffer};
use herma_model::alias::InvalidName;
use herma_model::{Alias, ChatId, SessionKey, SessionKind};
use herma_store::ExpectedRevision;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::app::Shared;
use crate::client_socket::Peer;
use crate::error::ApiError;
use crate::{front_ends, revision};

/// In a request, any name of a conversation. In an answer, the id of the head session.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("x-hermes-session-id");
/// In a request, a name that must exist. In an answer, the id of the conversation, which never changes.
pub(crate) const CONVERSATION_ID: HeaderName = HeaderName::from_static("x-hermes-conversation-id");
/// The session key: the memory scope.
pub(crate) const SESSION_KEY: HeaderName = HeaderName::from_static("x-hermes-session-key");
const TURN_POLICY: HeaderName = HeaderName::from_static("x-hermes-turn-policy");
const ON_DISCONNECT: HeaderName = HeaderName::from_static("x-hermes-on-disconnect");
const EVENTS: HeaderName = HeaderName::from_static("x-hermes-events");
const TOOLS: HeaderName = HeaderName::from_static("x-hermes-tools");
const MEMORY: HeaderName = HeaderName::from_static("x-hermes-memory");
const SESSION_KIND: HeaderName = HeaderName::from_static("x-hermes-session-kind");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const RETRY_COUNT: HeaderName = HeaderName::from_static("x-stainless-retry-count");
const ORIGINATOR: HeaderName = HeaderName::from_static("originator");
const CODEX_WINDOW: HeaderName = HeaderName::from_static("x-codex-window-id");

/// What the headers of a request say about its conversation and its turn.
#[derive(Debug, Clone)]
pub(crate) struct SessionHeaders {
    pub(crate) session: Option<Alias>,
    pub(crate) conversation: Option<Alias>,
    pub(crate) key: Option<SessionKey>,
    /// `Main`, or a helper's turn that does not write to the conversation that it names.
    pub(crate) kind: SessionKind,
    pub(crate) policy: Policy,
    pub(crate) on_disconnect: OnDisconnect,
    /// Whether the turn is offered Herma's own tools.
    pub(crate) tools: ToolOffer,
    /// How the turn uses long-term memory.
    pub(crate) memory: MemoryUse,
    /// Whether the stream may contain events that the SDKs do not know.
    pub(crate) events: bool,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) sdk_attempt: u32,
    /// Whether the client is one that repeats failed requests itself, and does not say so.
    pub(crate) repeats_failures: bool,
    /// The revision that the conversation must have.
    pub(crate) if_match: Option<ExpectedRevision>,
    /// Why a helper's conversation is made, if a front end says so.
    pub(crate) reason: Option<&'static str>,
    /// The chat of a front end that the request belongs to. It counts if the request names no conversation.
    pub(crate) chat: Option<ChatId>,
    /// The connection of the request. `None` if it is a message of a WebSocket.
    pub(crate) peer: Option<Peer>,
}

impl SessionHeaders {
    /// Refuses a session kind on routes where it has no meaning.
    pub(crate) fn refuse_kind(&self, why: &str) -> Result<(), ApiError> {
        if self.kind == SessionKind::Main { Ok(()) } else { Err(bad(&SESSION_KIND, why)) }
    }

    /// The same headers, with the chat that they name.
    pub(crate) fn in_chat(self, app: &Shared, headers: &HeaderMap) -> Self {
        Self { chat: front_ends::chat(headers, &app.settings.chat_headers), ..self }
    }

    /// Reads the headers of an HTTP request, with its connection.
    pub(crate) fn of(request: &Parts) -> Result<Self, ApiError> {
        let peer = request.extensions.get::<Peer>().cloned();
        Ok(Self { peer, ..Self::read(&request.headers)? })
    }

    /// Reads and checks all headers. An empty header counts as absent.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, ApiError> {
        Ok(Self {
            session: named(headers, &SESSION_ID, Alias::parse)?,
            conversation: named(headers, &CONVERSATION_ID, Alias::parse)?,
            key: named(headers, &SESSION_KEY, SessionKey::parse)?,
            kind: match text(headers, &SESSION_KIND)? {
                None if front_ends::asks_for_summary(headers) => SessionKind::Auxiliary,
                None => SessionKind::Main,
                Some(name) => front_ends::kind(name)
                    .ok_or_else(|| bad(&SESSION_KIND, "must be 'main', 'auxiliary' or 'background'"))?,
            },
            reason: front_ends::asks_for_summary(headers).then_some(CLIENT_COMPACTION),
            chat: None,
            policy: match text(headers, &TURN_POLICY)? {
                None | Some("queue") => Policy::Queue,
                Some("reject") => Policy::Reject,
                Some("interrupt") => Policy::Interrupt,
                Some("branch") => Policy::Branch,
                Some(_) => return Err(bad(&TURN_POLICY, "must be 'queue', 'reject', 'interrupt' or 'branch'")),
            },
            on_disconnect: match text(headers, &ON_DISCONNECT)? {
                None | Some("finish") => OnDisconnect::Finish,
                Some("cancel") => OnDisconnect::Cancel,
                Some(_) => return Err(bad(&ON_DISCONNECT, "must be 'finish' or 'cancel'")),
            },
            tools: match text(headers, &TOOLS)? {
                None => ToolOffer::AsConfigured,
                Some("off") => ToolOffer::Off,
                Some(_) => return Err(bad(&TOOLS, "must be 'off'")),
            },
            memory: match text(headers, &MEMORY)? {
                None => MemoryUse::AsUsual,
                Some("off") => MemoryUse::Off,
                Some("on") => MemoryUse::On,
                Some(_) => return Err(bad(&MEMORY, "must be 'off' or 'on'")),
            },
            events: match text(headers, &EVENTS)? {
                None | Some("0") => false,
                Some("1") => true,
                Some(_) => return Err(bad(&EVENTS, "must be '1' or '0'")),
            },
            idempotency_key: named(headers, &IDEMPOTENCY_KEY, |value| {
                SessionKey::parse(value).map(|key| key.to_string())
            })?,
            sdk_attempt: text(headers, &RETRY_COUNT)?.and_then(|count| count.parse().ok()).unwrap_or(0),
            repeats_failures: is_codex(headers),
            if_match: revision::expected(headers)?,
            peer: None,
        })
    }
}

/// Whether the request comes from Codex. Programs that contain it choose another originator.
fn is_codex(headers: &HeaderMap) -> bool {
    let is_named = headers.get(&ORIGINATOR).is_some_and(|name| name.as_bytes().starts_with(b"codex"));
    is_named || headers.contains_key(&CODEX_WINDOW)
}

/// The id in `Last-Event-ID`.
pub(crate) fn last_event<T>(headers: &HeaderMap, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, ApiError> {
    let read = |id: &str| parse(id).ok_or_else(|| bad(&LAST_EVENT_ID, "must be the id of an event"));
    text(headers, &LAST_EVENT_ID)?.map(read).transpose()
}

/// The first header that names a session or a session key.
pub(crate) fn names_a_session(headers: &HeaderMap) -> Option<&'static str> {
    [
        (SESSION_ID, "X-Hermes-Session-Id"),
        (CONVERSATION_ID, "X-Hermes-Conversation-Id"),
        (SESSION_KEY, "X-Hermes-Session-Key"),
    ]
    .into_iter()
    .find(|(name, _)| headers.get(name).is_some_and(|value| !value.is_empty()))
    .map(|(_, spelled)| spelled)
}

/// Adds the session that an answer belongs to.
pub(crate) fn insert_session(headers: &mut HeaderMap, session: &SessionView) {
    let facts = &session.facts;
    let mut put = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            headers.insert(name, value);
        }
    };
    put(SESSION_ID, facts.head.id.as_str());
    put(CONVERSATION_ID, &facts.id.to_string());
    if let Some(key) = &facts.session_key {
        put(SESSION_KEY, key.as_str());
    }
    if let Some(revision) = session.revision {
        revision::insert_etag(headers, facts.id, revision);
    }
}

fn named<T>(
    headers: &HeaderMap,
    name: &HeaderName,
    parse: impl Fn(&str) -> Result<T, InvalidName>,
) -> Result<Option<T>, ApiError> {
    text(headers, name)?.map(parse).transpose().map_err(|why| bad(name, &why.to_string()))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(bad(name, "was sent more than once"));
    }
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| bad(name, &InvalidName::Unprintable.to_string()))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn bad(name: &HeaderName, why: &str) -> ApiError {
    let spelled = spelled(name);
    ApiError::invalid_header(&spelled, format!("{spelled} {why}"))
}

/// A header's name in its usual spelling.
pub(crate) fn spelled(name: &HeaderName) -> String {
    if *name == LAST_EVENT_ID {
        return "Last-Event-ID".to_owned();
    }
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.as_str().split('-').map(capital).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_can_only_be_switched_off() {
        let read = |value: &'static str| {
            let headers = HeaderMap::from_iter([(TOOLS, HeaderValue::from_static(value))]);
            SessionHeaders::read(&headers).map(|headers| headers.tools)
        };
        assert_eq!(read("").ok(), Some(ToolOffer::AsConfigured));
        assert_eq!(read("off").ok(), Some(ToolOffer::Off));
        for value in ["on", "Off", "none"] {
            let error = read(value).expect_err(value);
            assert_eq!((error.label(), error.body().param.as_deref()), ("invalid_header", Some("X-Hermes-Tools")));
        }
    }

    #[test]
    fn memory_is_switched_off_or_on() {
        let read = |value: &'static str| {
            let headers = HeaderMap::from_iter([(MEMORY, HeaderValue::from_static(value))]);
            SessionHeaders::read(&headers).map(|headers| headers.memory)
        };
        for (value, memory) in [("", MemoryUse::AsUsual), ("off", MemoryUse::Off), ("on", MemoryUse::On)] {
            assert_eq!(read(value).ok(), Some(memory), "{value}");
        }
        for value in ["Off", "false", "0", "yes"] {
            let error = read(value).expect_err(value);
            assert_eq!((error.label(), error.body().param.as_deref()), ("invalid_header", Some("X-Hermes-Memory")));
        }
    }

    #[test]
    fn extra_events_come_only_if_the_client_asks_for_them() {
        let read = |value: Option<&'static str>| {
            let headers = value.map(|value| (EVENTS, HeaderValue::from_static(value)));
            SessionHeaders::read(&HeaderMap::from_iter(headers)).map(|headers| headers.events)
        };
        for (value, wanted) in [(None, false), (Some(""), false), (Some("0"), false), (Some("1"), true)] {
            assert_eq!(read(value).ok(), Some(wanted), "{value:?}");
        }
        for value in ["true", "2", "1 1", "yes"] {
            let error = read(Some(value)).expect_err(value);
            assert_eq!((error.label(), error.body().param.as_deref()), ("invalid_header", Some("X-Hermes-Events")));
        }
    }
}

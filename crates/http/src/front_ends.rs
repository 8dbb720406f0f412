//! What front ends say about their requests without knowing of sessions: the id of a chat, and that a request is a
//! helper's.

use herma_model::{ChatId, Role, SessionKind, Utterance};
use http::{HeaderMap, HeaderName};
use serde::Deserialize;

/// In a request of Codex, JSON about the turn that it belongs to.
const CODEX_METADATA: HeaderName = HeaderName::from_static("x-codex-turn-metadata");

/// How requests begin that ask for titles, tags and the like: those of Open WebUI, and the title of LibreChat.
const TASKS: [&str; 2] = ["### Task:", "Provide a concise, 5-word-or-less title"];

/// The chat that a request belongs to: the first of these headers that it has.
pub(crate) fn chat(headers: &HeaderMap, names: &[String]) -> Option<ChatId> {
    let found = names.iter().filter_map(|name| Some((name, headers.get(name.as_str())?)));
    let mut found = found.filter(|(_, id)| !id.is_empty());
    found.next().map(|(name, id)| ChatId::of(name, id.as_bytes()))
}

/// The kind that `X-Hermes-Session-Kind` names. Open WebUI can put the name of a task there. `None` if it is no kind.
pub(crate) fn kind(name: &str) -> Option<SessionKind> {
    Some(match name {
        "main" => SessionKind::Main,
        "auxiliary" | "function_calling" => SessionKind::Auxiliary,
        "background" => SessionKind::Background,
        task if task.ends_with("_generation") => SessionKind::Auxiliary,
        _ => return None,
    })
}

/// Whether Codex asks for a summary with which it replaces its own context.
pub(crate) fn asks_for_summary(headers: &HeaderMap) -> bool {
    #[derive(Deserialize)]
    struct Metadata {
        request_kind: Option<String>,
    }
    let metadata = headers.get(CODEX_METADATA).map(|json| serde_json::from_slice::<Metadata>(json.as_bytes()));
    metadata.is_some_and(|read| read.is_ok_and(|read| read.request_kind.as_deref() == Some("compaction")))
}

/// Whether a request has the form of a front end's helpers: one message of the user that describes a task.
pub(crate) fn is_task(messages: &[Utterance], streaming: bool) -> bool {
    let [only] = messages else { return false };
    let is_task = |text: String| TASKS.iter().any(|task| text.trim_start().starts_with(task));
    !streaming && only.role == Role::User && only.payload.text().is_some_and(is_task)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_first_header_that_a_request_has_names_its_chat() {
        let names = ["thread-id".to_owned(), "session-id".to_owned()];
        let headers = |values: &[(&'static str, &'static str)]| {
            let values =
                values.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            HeaderMap::from_iter(values)
        };
        assert_eq!(
            chat(&headers(&[("session-id", "a"), ("thread-id", "b")]), &names),
            Some(ChatId::of("thread-id", b"b"))
        );
        assert_eq!(
            chat(&headers(&[("session-id", "a"), ("thread-id", "")]), &names),
            Some(ChatId::of("session-id", b"a"))
        );
        assert_eq!(chat(&headers(&[("x-other", "a")]), &names), None);
    }

    #[test]
    fn names_of_tasks_are_kinds() {
        for (name, kind_of) in [
            ("main", Some(SessionKind::Main)),
            ("title_generation", Some(SessionKind::Auxiliary)),
            ("function_calling", Some(SessionKind::Auxiliary)),
            ("background", Some(SessionKind::Background)),
            ("branch", None),
            ("continuation", None),
        ] {
            assert_eq!(kind(name), kind_of, "{name}");
        }
    }

    #[test]
    fn a_request_for_a_summary_is_told_by_its_metadata() {
        let asks = |json: &'static str| {
            asks_for_summary(&HeaderMap::from_iter([(CODEX_METADATA, HeaderValue::from_static(json))]))
        };
        assert!(asks(r#"{"turn_id":"1","request_kind":"compaction"}"#));
        assert!(!asks(r#"{"turn_id":"1","request_kind":"turn"}"#));
        assert!(!asks("compaction"));
        assert!(!asks_for_summary(&HeaderMap::new()));
    }
}

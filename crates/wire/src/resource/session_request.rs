//! The bodies of requests that create, change, branch and rewind sessions. An unknown field is refused, because it may
//! be misspelt.

use std::sync::Arc;

use herma_model::SessionKind;
use herma_model::limits::MAX_TITLE;
use herma_model::text::breaks_a_line;
use serde_json::value::RawValue;

use super::compact_request::{read, refuse_unknown_fields};
use crate::bad_request::{BadRequest, Flaw};
use crate::json::{Object, flag, text};
use crate::responses::{metadata, read_field};

/// The body of `POST /api/sessions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateSession {
    /// The name that the client chose. Not validated here.
    pub id: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// Its kind.
    pub kind: Option<SessionKind>,
    /// The session that it comes from. Not validated here.
    pub parent: Option<String>,
    /// The session key. Not validated here.
    pub session_key: Option<String>,
    /// The client's metadata, a JSON object.
    pub metadata: Option<Arc<str>>,
}

impl CreateSession {
    /// Reads a body. An empty one counts as `{}`. `session_id` is Hermes' name for `id`.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        read(body, |mut body| {
            if !body.rename("session_id", "id") {
                return Err(Flaw::at("session_id", "must not be given together with id: both say the same"));
            }
            let asked = Self {
                id: name(&mut body, "id")?,
                title: read_field(&mut body, "title", read_title)?,
                kind: read_field(&mut body, "kind", kind)?,
                parent: name(&mut body, "parent")?,
                session_key: name(&mut body, "session_key")?,
                metadata: read_field(&mut body, "metadata", metadata)?.map(Arc::from),
            };
            refuse_unknown_fields(&body, "id, title, kind, parent, session_key and metadata")?;
            Ok(asked)
        })
    }
}

/// The body of `PATCH /api/sessions/{alias}`. An absent field stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSession {
    /// The new title. `Some(None)` removes the title; clients send an empty text for that.
    pub title: Option<Option<String>>,
    /// Whether it is archived from now on.
    pub archived: Option<bool>,
    /// The new metadata, a JSON object.
    pub metadata: Option<Arc<str>>,
}

impl ChangeSession {
    /// Reads a body. It must have at least one field.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        let asked = read(body, |mut body| {
            if body.take("end_reason").is_some() {
                return Err(Flaw::at(
                    "end_reason",
                    "cannot be set: POST …/end ends a session, POST …/reopen opens it again",
                ));
            }
            let asked = Self {
                title: read_field(&mut body, "title", |raw| {
                    let empty = text(raw)?.is_empty();
                    if empty { Ok(None) } else { read_title(raw).map(Some) }
                })?,
                archived: read_field(&mut body, "archived", flag)?,
                metadata: read_field(&mut body, "metadata", metadata)?.map(Arc::from),
            };
            refuse_unknown_fields(&body, "title, archived and metadata")?;
            Ok(asked)
        })?;
        if asked == Self::default() {
            return Err(Flaw::new("must have a title, archived or metadata").into());
        }
        Ok(asked)
    }
}

/// The body of `POST /api/sessions/{alias}/branch`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchSession {
    /// The message after which the branch begins. `None` means the end. Not validated here.
    pub at: Option<String>,
    /// The name that the client chose. Not validated here.
    pub id: Option<String>,
    /// Its title.
    pub title: Option<String>,
    /// The client's metadata, a JSON object.
    pub metadata: Option<Arc<str>>,
}

impl BranchSession {
    /// Reads a body. An empty one counts as `{}`. `session_id` is Hermes' name for `id`.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        read(body, |mut body| {
            if !body.rename("session_id", "id") {
                return Err(Flaw::at("session_id", "must not be given together with id: both say the same"));
            }
            let asked = Self {
                at: name(&mut body, "at")?,
                id: name(&mut body, "id")?,
                title: read_field(&mut body, "title", read_title)?,
                metadata: read_field(&mut body, "metadata", metadata)?.map(Arc::from),
            };
            refuse_unknown_fields(&body, "at, id, title and metadata")?;
            Ok(asked)
        })
    }
}

/// The body of `POST /api/sessions/{alias}/rewind`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewindSession {
    /// To this message. Not validated here.
    To(String),
    /// To the point before the last so many turns.
    Turns(u32),
}

impl RewindSession {
    /// Reads a body. It must have exactly one of `to` and `turns`.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        let (to, turns) = read(body, |mut body| {
            let asked = (name(&mut body, "to")?, read_field(&mut body, "turns", turns)?);
            refuse_unknown_fields(&body, "to and turns")?;
            Ok(asked)
        })?;
        match (to, turns) {
            (Some(to), None) => Ok(Self::To(to)),
            (None, Some(turns)) => Ok(Self::Turns(turns)),
            (Some(_), Some(_)) => {
                Err(Flaw::at("turns", "must not be given together with to: each says how far").into())
            }
            (None, None) => Err(Flaw::new("must have to, a message id, or turns, a number").into()),
        }
    }
}

fn turns(raw: &RawValue) -> Result<u32, Flaw> {
    let turns = serde_json::from_str(raw.get()).ok().filter(|turns| *turns > 0);
    turns.ok_or_else(|| Flaw::new("must be a whole number from 1 on"))
}

fn name(body: &mut Object<'_>, field: &str) -> Result<Option<String>, Flaw> {
    Ok(body.take_text(field)?.filter(|name| !name.is_empty()).map(String::from))
}

fn kind(raw: &RawValue) -> Result<SessionKind, Flaw> {
    SessionKind::parse(&text(raw)?).ok_or_else(|| Flaw::new("must be main, auxiliary, background or branch"))
}

fn read_title(raw: &RawValue) -> Result<String, Flaw> {
    title(&text(raw)?).map_err(Flaw::new)
}

/// Checks a title and trims it. A title is one line that people can read. The error continues a sentence after the
/// field's name: "must not be empty".
pub fn title(text: &str) -> Result<String, String> {
    let title = text.trim();
    match title.chars().count() {
        0 => Err("must not be empty".to_owned()),
        1..=MAX_TITLE if title.chars().any(breaks_a_line) => {
            Err("must not have line breaks or other control characters".to_owned())
        }
        1..=MAX_TITLE => Ok(title.to_owned()),
        _ => Err(format!("must not be longer than {MAX_TITLE} characters")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw<T: std::fmt::Debug>(read: Result<T, BadRequest>) -> Option<String> {
        read.expect_err("a flaw").param
    }

    #[test]
    fn fields_are_read_and_may_be_absent() {
        assert_eq!(CreateSession::parse(b""), Ok(CreateSession::default()));
        let body = br#"{"session_id":"trip","title":" Oslo ","kind":"auxiliary","parent":"home","session_key":"k","metadata":{"a":"b"}}"#;
        let asked = CreateSession::parse(body).unwrap();
        assert_eq!((asked.id.as_deref(), asked.title.as_deref()), (Some("trip"), Some("Oslo")));
        assert_eq!((asked.kind, asked.parent.as_deref()), (Some(SessionKind::Auxiliary), Some("home")));
        let change = ChangeSession::parse(br#"{"title":"","archived":true}"#).unwrap();
        assert_eq!((change.title, change.archived), (Some(None), Some(true)));
        assert_eq!(RewindSession::parse(br#"{"to":"msg_1"}"#), Ok(RewindSession::To("msg_1".to_owned())));
        assert_eq!(RewindSession::parse(br#"{"turns":2}"#), Ok(RewindSession::Turns(2)));
        assert_eq!(BranchSession::parse(br#"{"at":"msg_1"}"#).unwrap().at.as_deref(), Some("msg_1"));
    }

    #[test]
    fn wrong_fields_are_refused_by_name() {
        let long = format!(r#"{{"title":"{}"}}"#, "x".repeat(10_000));
        for (body, param) in [
            (long.as_str(), Some("title")),
            (r#"{"title":"a\nb"}"#, Some("title")),
            (r#"{"title":" "}"#, Some("title")),
            (r#"{"kind":"king"}"#, Some("kind")),
            (r#"{"kid":"main"}"#, Some("kid")),
            (r#"{"id":"a","session_id":"b"}"#, Some("session_id")),
            (r#"{"metadata":[]}"#, Some("metadata")),
            ("[]", None),
        ] {
            assert_eq!(flaw(CreateSession::parse(body.as_bytes())).as_deref(), param, "{body}");
        }
        for (body, param) in
            [("{}", None), (r#"{"end_reason":"x"}"#, Some("end_reason")), (r#"{"id":"a"}"#, Some("id"))]
        {
            assert_eq!(flaw(ChangeSession::parse(body.as_bytes())).as_deref(), param, "{body}");
        }
        assert_eq!(flaw(BranchSession::parse(br#"{"from":"x"}"#)).as_deref(), Some("from"));
        for (body, param) in [
            ("{}", None),
            (r#"{"to":""}"#, None),
            (r#"{"turns":0}"#, Some("turns")),
            (r#"{"turns":-1}"#, Some("turns")),
            (r#"{"turns":1.5}"#, Some("turns")),
            (r#"{"turns":"1"}"#, Some("turns")),
            (r#"{"to":"msg_1","turns":1}"#, Some("turns")),
            (r#"{"turn":1}"#, Some("turn")),
        ] {
            assert_eq!(flaw(RewindSession::parse(body.as_bytes())).as_deref(), param, "{body}");
        }
    }
}

//! The bodies of `POST /api/sessions/{alias}/compactions` and of an undo.

use herma_model::provenance::CompactionMode;

use crate::bad_request::{BadRequest, Flaw};
use crate::json::{Object, flag};

/// What a client asks of a compaction. An absent field means the configured value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactRequest {
    /// Whether only to report what the compaction would do.
    pub dry_run: bool,
    /// Whether the session is split or compacted in place.
    pub mode: Option<CompactionMode>,
    /// The model whose window the conversation must fit.
    pub model: Option<String>,
}

impl CompactRequest {
    /// Reads a body. An empty one counts as `{}`. An unknown field is refused, because it may be a misspelt `dry_run`.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        read(body, Self::read)
    }

    fn read(mut body: Object<'_>) -> Result<Self, Flaw> {
        let dry_run = body.take("dry_run").map(|raw| flag(raw).map_err(|flaw| flaw.within("dry_run"))).transpose()?;
        let mode = body.take_text("mode")?.map(|name| mode(&name)).transpose()?;
        let model = model(&mut body)?;
        refuse_unknown_fields(&body, "dry_run, mode and model")?;
        Ok(Self { dry_run: dry_run.unwrap_or_default(), mode, model })
    }
}

/// What a client asks of an undo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoRequest {
    /// The model whose window the conversation must fit after the undo.
    pub model: Option<String>,
}

impl UndoRequest {
    /// Reads a body. An empty one counts as `{}`.
    pub fn parse(body: &[u8]) -> Result<Self, BadRequest> {
        read(body, |mut body| {
            let model = model(&mut body)?;
            refuse_unknown_fields(&body, "model")?;
            Ok(Self { model })
        })
    }
}

pub(super) fn read<T: Default>(
    body: &[u8],
    fields: impl FnOnce(Object<'_>) -> Result<T, Flaw>,
) -> Result<T, BadRequest> {
    let text = std::str::from_utf8(body).map_err(|error| Flaw::new(format!("is not valid UTF-8: {error}")))?;
    if text.trim().is_empty() {
        return Ok(T::default());
    }
    Ok(fields(Object::from_text(text)?)?)
}

fn model(body: &mut Object<'_>) -> Result<Option<String>, Flaw> {
    Ok(body.take_text("model")?.filter(|name| !name.is_empty()).map(String::from))
}

pub(super) fn refuse_unknown_fields(body: &Object<'_>, taken: &str) -> Result<(), Flaw> {
    match body.rest().next() {
        Some((name, _)) => Err(Flaw::at(name, format!("is not a field of this request; it takes {taken}"))),
        None => Ok(()),
    }
}

fn mode(name: &str) -> Result<CompactionMode, Flaw> {
    CompactionMode::parse(name).ok_or_else(|| Flaw::at("mode", "must be 'split' or 'in_place'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_mean_the_configured_values() {
        for body in ["", " \n", "{}", r#"{"dry_run":null,"mode":null,"model":null}"#, r#"{"dry_run":false,"model":""}"#]
        {
            assert_eq!(CompactRequest::parse(body.as_bytes()), Ok(CompactRequest::default()), "{body}");
        }
        let body = br#"{"model":"m","mode":"in_place","dry_run":true}"#;
        let asked = CompactRequest { dry_run: true, mode: Some(CompactionMode::InPlace), model: Some("m".to_owned()) };
        assert_eq!(CompactRequest::parse(body), Ok(asked));
    }

    #[test]
    fn wrong_fields_are_refused_by_name() {
        for (body, param) in [
            (r#"{"dryrun":true}"#, Some("dryrun")),
            (r#"{"dry_run":"true"}"#, Some("dry_run")),
            (r#"{"dry_run":1}"#, Some("dry_run")),
            (r#"{"mode":"off"}"#, Some("mode")),
            (r#"{"mode":true}"#, Some("mode")),
            (r#"{"model":["m"]}"#, Some("model")),
            ("[]", None),
            ("null", None),
            ("{", None),
            ("\u{1}", None),
        ] {
            let bad = CompactRequest::parse(body.as_bytes()).expect_err(body);
            assert_eq!(bad.param.as_deref(), param, "{body}");
        }
        assert_eq!(CompactRequest::parse(b"{\"model\":\"\xff\"}").map_err(|bad| bad.param), Err(None));
    }

    #[test]
    fn an_undo_takes_a_model_or_nothing() {
        assert_eq!(UndoRequest::parse(b""), Ok(UndoRequest::default()));
        assert_eq!(UndoRequest::parse(br#"{"model":"m"}"#), Ok(UndoRequest { model: Some("m".to_owned()) }));
        let bad = UndoRequest::parse(br#"{"dry_run":true}"#).expect_err("an unknown field");
        assert_eq!(bad.param.as_deref(), Some("dry_run"));
    }
}

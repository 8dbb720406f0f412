//! One line of an export.

use std::borrow::Cow;

use herma_model::copy::Piece;
use serde::{Deserialize, Serialize};

use super::{Complete, End, Header};

/// One line. Its kind is its `type`.
#[derive(Debug)]
pub(super) enum Line {
    Header(Header),
    Piece(Piece),
    End(End),
    Complete(Complete),
}

#[derive(Serialize)]
struct Typed<'a, T> {
    r#type: &'static str,
    #[serde(flatten)]
    line: &'a T,
}

#[derive(Deserialize)]
struct Type<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
}

impl Line {
    /// The line as JSON, without a line break.
    pub(super) fn write(&self) -> serde_json::Result<String> {
        match self {
            Self::Header(line) => serde_json::to_string(&Typed { r#type: "header", line }),
            Self::Piece(line) => serde_json::to_string(line),
            Self::End(line) => serde_json::to_string(&Typed { r#type: "end", line }),
            Self::Complete(line) => serde_json::to_string(&Typed { r#type: "complete", line }),
        }
    }

    /// Reads a line that [`Self::write`] made. It reads the type first, because serde's tagged enums do not keep the
    /// raw JSON text of a payload.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        fn parse<'a, T: Deserialize<'a>>(text: &'a str, line: impl FnOnce(T) -> Line) -> Result<Line, String> {
            serde_json::from_str(text).map(line).map_err(|error| format!("it cannot be read: {}", at_column(&error)))
        }
        let kind: Type<'_> =
            serde_json::from_str(text).map_err(|error| format!("it is no line of an export: {}", at_column(&error)))?;
        match &*kind.r#type {
            "header" => parse(text, Line::Header),
            "inherited" => parse(text, |piece| Self::Piece(Piece::Inherited(piece))),
            "conversation" => parse(text, |piece| Self::Piece(Piece::Conversation(piece))),
            "session" => parse(text, |piece| Self::Piece(Piece::Session(piece))),
            "turn" => parse(text, |piece| Self::Piece(Piece::Turn(piece))),
            "message" => parse(text, |piece| Self::Piece(Piece::Message(piece))),
            "compaction" => parse(text, |piece| Self::Piece(Piece::Compaction(piece))),
            "end" => parse(text, Line::End),
            "complete" => parse(text, Line::Complete),
            other => Err(format!("there is no line of type {other:?}")),
        }
    }
}

/// The error with its column. The caller knows the number of the line, and the error would say that it is the first.
fn at_column(error: &serde_json::Error) -> String {
    error.to_string().replacen("at line 1 column", "at column", 1)
}

//! How long something is kept.

use std::fmt;
use std::time::Duration;

use super::span;
use crate::reading::given::{GivenValue, ValueError};
use crate::reading::setting::Setting;

/// A time after which something is deleted, or never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Until an operator or a client deletes it.
    Forever,
    /// For this time after its end; never zero.
    For(Duration),
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forever => f.write_str("forever"),
            Self::For(span) => f.write_str(&span::text(*span)),
        }
    }
}

impl Setting for Keep {
    const ALLOWED: &'static str = r#""forever" or a duration above zero, such as "30d" or "12h""#;

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        match given.text()?.trim() {
            "forever" => Ok(Self::Forever),
            text => span::parse(text).filter(|span| !span.is_zero()).map(Self::For).ok_or(ValueError::NotAllowed),
        }
    }
}

//! Names that lead to a conversation, and what a client may choose as one.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids;
use crate::kind::stored_enum;
use crate::limits::MAX_NAME_BYTES;
use crate::session_key::SessionKey;

/// Why a text cannot be a session id, a slug or a session key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// Empty, or longer than the limit.
    #[error("must be 1 to {MAX_NAME_BYTES} bytes long")]
    Length,
    /// A control character, or bytes that are not UTF-8.
    #[error("must be printable UTF-8 without control characters")]
    Unprintable,
    /// A path separator or a parent directory.
    #[error("must not contain '/', '\\' or '..'")]
    PathLike,
}

stored_enum!(
    /// Where an alias is unique. The same name can exist in both namespaces.
    Namespace {
        /// Conversation ids, session ids, slugs, response and run ids.
        Session = "session",
        /// Chat ids that front ends send in headers of their own.
        ChatId = "chat_id",
        /// The current conversation of the session key that is the name. No name is stored here: the store looks for the
        /// conversation whenever it is asked. So no client can choose where such a name leads.
        Current = "current",
    }
);

/// A well-formed name that may lead to a conversation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Alias(Arc<str>);

impl Alias {
    /// Checks the form of a name: length, printable characters, nothing path-like.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        check_printable(text)?;
        if text.contains(['/', '\\']) || text.contains("..") {
            return Err(InvalidName::PathLike);
        }
        Ok(Self(Arc::from(text)))
    }

    /// A session key as a name in [`Namespace::Current`]. A key may have any printable characters.
    pub fn of_key(session_key: &SessionKey) -> Self {
        Self(Arc::from(session_key.as_str()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as text that is shared, not copied.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// Whether a client may give this name to something new. It may not if the name has the form of Herma's own ids or
    /// begins with `conv_`. Such a name can only lead to something that exists.
    pub fn may_be_created(&self) -> bool {
        !self.0.starts_with("conv_") && !ids::is_own_form(&self.0)
    }

    /// Whether a request may make a conversation by this name. The current conversation of a key gets no name, so there
    /// every key may be used.
    pub fn may_be_created_in(&self, namespace: Namespace) -> bool {
        namespace == Namespace::Current || self.may_be_created()
    }
}

impl Serialize for Alias {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Alias {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::parsed(deserializer, Self::parse)
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Alias({})", self.0)
    }
}

pub(crate) fn check_printable(text: &str) -> Result<(), InvalidName> {
    if text.is_empty() || text.len() > MAX_NAME_BYTES {
        return Err(InvalidName::Length);
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidName::Unprintable);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_by_form() {
        let long = "x".repeat(257);
        for (text, reason) in [
            ("", InvalidName::Length),
            (long.as_str(), InvalidName::Length),
            ("a\nb", InvalidName::Unprintable),
            ("a\u{7f}", InvalidName::Unprintable),
            ("a\u{85}", InvalidName::Unprintable),
            ("../etc", InvalidName::PathLike),
            ("a\\b", InvalidName::PathLike),
            ("a..b", InvalidName::PathLike),
        ] {
            assert_eq!(Alias::parse(text), Err(reason), "{text:?}");
        }
    }

    #[test]
    fn names_of_our_own_form_are_never_created_by_a_client() {
        for (text, may) in [
            ("conv_x", false),
            ("sess_0123456789abcdef0123456789abcdef", false),
            ("run_daily", true),
            ("zürich trip", true),
            ("20260801_120000_abcdef", true),
        ] {
            assert_eq!(Alias::parse(text).unwrap().may_be_created(), may, "{text}");
        }
    }
}

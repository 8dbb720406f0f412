//! Session keys: a caller's stable names for channels or people, and which of them an API key may use.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::alias::{InvalidName, check_printable};

/// A well-formed session key. Unlike an alias it may contain `/`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct SessionKey(Arc<str>);

impl SessionKey {
    /// Checks length and characters.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        check_printable(text)?;
        Ok(Self(Arc::from(text)))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for SessionKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::text::parsed(deserializer, Self::parse)
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionKey({})", self.0)
    }
}

/// The session keys a principal may use: all, or those that match one of its patterns.
///
/// A pattern is literal text in which `*` stands for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KeyScope {
    /// Every session key of the tenant.
    #[default]
    All,
    /// Only keys that match one of the patterns.
    Patterns(Arc<[String]>),
    /// Exactly this key. If `None`, only conversations without a key. Limits what a model may read in a turn.
    Only(Option<SessionKey>),
}

impl KeyScope {
    /// Reads the stored or typed form: patterns separated by commas. An empty text means all.
    pub fn parse(text: Option<&str>) -> Self {
        let patterns: Vec<String> =
            text.unwrap_or("").split(',').map(str::trim).filter(|p| !p.is_empty()).map(str::to_owned).collect();
        if patterns.is_empty() { Self::All } else { Self::Patterns(patterns.into()) }
    }

    /// The stored form; `None` if every key is allowed.
    pub fn to_stored(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::Patterns(patterns) => Some(patterns.join(",")),
            Self::Only(key) => Some(key.as_ref().map_or_else(String::new, ToString::to_string)),
        }
    }

    /// Whether this key may be used.
    pub fn allows(&self, key: &SessionKey) -> bool {
        match self {
            Self::All => true,
            Self::Patterns(patterns) => patterns.iter().any(|pattern| matches(pattern, key.as_str())),
            Self::Only(only) => only.as_ref() == Some(key),
        }
    }

    /// Whether the principal can see a conversation with this stored key. Every pattern sees conversations without a
    /// key.
    pub fn sees(&self, key: Option<&SessionKey>) -> bool {
        match self {
            Self::Only(only) => only.as_ref() == key,
            Self::All | Self::Patterns(_) => key.is_none_or(|key| self.allows(key)),
        }
    }
}

/// Whether a pattern matches the whole text. `*` stands for any run of characters, all else for itself.
///
/// Finds each part at its first position from the left, and the last part at the end. So it never backtracks.
pub fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_keys() {
        for (pattern, key, expected) in [
            ("agent:*", "agent:main:dm:1", true),
            ("agent:*", "other", false),
            ("agent:main", "agent:main:x", false),
            ("*:dm:*", "a:dm:b", true),
            ("a*a", "a", false),
            ("a*a", "aba", true),
            ("*", "anything", true),
        ] {
            let scope = KeyScope::parse(Some(pattern));
            assert_eq!(scope.allows(&SessionKey::parse(key).unwrap()), expected, "{pattern} on {key}");
        }
    }

    #[test]
    fn conversations_without_a_key_are_visible_to_every_pattern() {
        assert!(KeyScope::parse(Some("x")).sees(None));
        assert_eq!(KeyScope::parse(Some(" , ")), KeyScope::All);
    }
}

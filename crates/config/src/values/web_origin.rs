//! Origins of web pages that may call the server.

use std::fmt;

use crate::reading::given::{GivenValue, ValueError};
use crate::reading::setting::Setting;

/// An origin as a browser sends it, `SCHEME://HOST[:PORT]` in lower case, or `*` for all origins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebOrigin(String);

impl WebOrigin {
    /// Reads an origin. Removes a slash at its end, because browsers send none.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if text == "*" {
            return Some(Self(text));
        }
        let (scheme, host) = text.split_once("://")?;
        let host = host.strip_suffix('/').unwrap_or(host);
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
        let is_host = !host.is_empty()
            && host.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'/' | b'?' | b'#' | b'@' | b'*'));
        (is_scheme && is_host).then(|| Self(format!("{scheme}://{host}")))
    }

    /// Whether it is `*`.
    pub fn is_any(&self) -> bool {
        self.0 == "*"
    }

    /// The origin as a browser sends it, or `*`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Setting for Vec<WebOrigin> {
    const ALLOWED: &'static str =
        r#"a list of origins as browsers send them, such as ["http://localhost:3000", "https://chat.example.com"]"#;

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        given.list()?.into_iter().map(|text| WebOrigin::parse(text).ok_or(ValueError::NotAllowed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_become_what_browsers_send() {
        for (text, expected) in [
            ("http://localhost:3000", Some("http://localhost:3000")),
            ("https://Chat.Example.com/", Some("https://chat.example.com")),
            ("app://obsidian.md", Some("app://obsidian.md")),
            ("*", Some("*")),
            ("localhost:3000", None),
            ("https://example.com/chat", None),
            ("https://*.example.com", None),
            ("https://", None),
            ("", None),
        ] {
            assert_eq!(WebOrigin::parse(text).as_ref().map(WebOrigin::as_str), expected, "{text}");
        }
    }
}

//! URLs of servers that Herma calls.

use std::fmt;

use super::listen::ListenAddress;
use crate::reading::given::{GivenValue, ValueError};
use crate::reading::setting::Setting;
use crate::values::secret::REDACTED;

/// An `http` or `https` URL with a host, without user, password, query and fragment. It holds no secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl(String);

impl HttpUrl {
    /// Checks the form. Does not normalise the text.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let rest = after_scheme(text)?;
        let authority = rest.split('/').next().unwrap_or(rest);
        let has_port = authority.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
        let with_port = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let is_clean =
            !text.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#' | '@' | '\\'));
        (is_clean && ListenAddress::parse(&with_port)?.port() != 0).then(|| Self(text.to_owned()))
    }

    /// The same URL without slashes at its end, so that a path can be appended.
    #[must_use]
    pub fn trimmed(&self) -> Self {
        Self(self.0.trim_end_matches('/').to_owned())
    }

    /// The URL as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn after_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    (scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")).then_some(rest)
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Setting for HttpUrl {
    const ALLOWED: &'static str =
        r#"an http or https URL without user, password, query and fragment, such as "https://api.openai.com/v1""#;

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        Self::parse(given.text()?).ok_or(ValueError::NotAllowed)
    }

    /// Hides a URL with a user, a query or a fragment, because it may hold a password or a key.
    fn show(given: &GivenValue) -> String {
        match given.text() {
            Ok(text) if text.contains(['@', '?', '#']) => {
                format!("a URL with a user, a query or a fragment {REDACTED}")
            }
            _ => given.show(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_servers_have_http_urls() {
        for text in [
            "https://api.openai.com/v1",
            "http://localhost:11434/v1/",
            "http://[::1]:8000",
            "HTTP://10.0.0.1:1/",
            "https://host/a/b:c",
        ] {
            assert_eq!(HttpUrl::parse(text).map(|url| url.to_string()), Some(text.to_owned()), "{text}");
        }
        for text in [
            "",
            "api.openai.com/v1",
            "ftp://host",
            "https://",
            "https:///v1",
            "http://host:0",
            "http://host:99999/v1",
            "http://ho st/v1",
            "https://me:pw@host/v1",
            "https://host/v1?key=1",
            "https://host/v1#a",
            "localhost:8000",
        ] {
            assert_eq!(HttpUrl::parse(text), None, "{text}");
        }
    }

    #[test]
    fn slashes_at_the_end_can_be_taken_off() {
        assert_eq!(HttpUrl::parse("http://host/v1//").unwrap().trimmed().as_str(), "http://host/v1");
    }
}

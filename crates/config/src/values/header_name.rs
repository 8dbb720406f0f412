//! Names of HTTP headers.

use crate::reading::given::{GivenValue, ValueError};
use crate::reading::setting::Setting;

/// The name of an HTTP header, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderNameText(String);

/// Headers in which known front ends send the id of a chat. A thread of Codex is more specific than its session.
const KNOWN_CHATS: [&str; 5] =
    ["x-openwebui-chat-id", "thread-id", "session-id", "chatui-conversation-id", "x-conversation-id"];

impl HeaderNameText {
    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let text = text.trim();
        (!text.is_empty() && text.bytes().all(is_token)).then(|| Self(text.to_ascii_lowercase()))
    }

    /// The headers of known front ends.
    pub(crate) fn of_known_chats() -> Vec<Self> {
        KNOWN_CHATS.iter().filter_map(|name| Self::parse(name)).collect()
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for Vec<HeaderNameText> {
    const ALLOWED: &'static str = r#"a list of names of headers, such as ["X-OpenWebUI-Chat-Id"]"#;

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        given.list()?.into_iter().map(|text| HeaderNameText::parse(text).ok_or(ValueError::NotAllowed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_headers_are_taken() {
        assert_eq!(HeaderNameText::parse(" X-Chat-Id ").map(|name| name.0).as_deref(), Some("x-chat-id"));
        for text in ["", "a b", "a:b", "é"] {
            assert_eq!(HeaderNameText::parse(text), None, "{text}");
        }
        assert_eq!(HeaderNameText::of_known_chats().len(), KNOWN_CHATS.len());
    }
}

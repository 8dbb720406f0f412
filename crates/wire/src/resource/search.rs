//! Search results, as `GET /api/search` lists them.

use herma_model::{ConversationId, MessageId, MessageStatus, Role, SessionId, SessionKind, Timestamp};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::rfc3339;

/// How a snippet marks the matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Marks {
    /// Between `<mark>` and `</mark>`. The text's own `&`, `<`, `>` and quotation marks are escaped, so the snippet can
    /// be put into an HTML page.
    #[default]
    Html,
    /// Not marked: plain text.
    None,
}

impl Marks {
    /// Reads the name that a client sends.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "html" => Some(Self::Html),
            "none" => Some(Self::None),
            _ => None,
        }
    }

    /// Makes a snippet of pieces. Each piece says whether it is a match.
    pub fn write<'a>(self, pieces: impl IntoIterator<Item = (&'a str, bool)>) -> String {
        let mut snippet = String::new();
        for (text, found) in pieces {
            match self {
                Self::None => snippet.push_str(text),
                Self::Html if found => {
                    snippet.push_str("<mark>");
                    escape(text, &mut snippet);
                    snippet.push_str("</mark>");
                }
                Self::Html => escape(text, &mut snippet),
            }
        }
        snippet
    }
}

fn escape(text: &str, to: &mut String) {
    for letter in text.chars() {
        match letter {
            '&' => to.push_str("&amp;"),
            '<' => to.push_str("&lt;"),
            '>' => to.push_str("&gt;"),
            '"' => to.push_str("&quot;"),
            '\'' => to.push_str("&#39;"),
            other => to.push(other),
        }
    }
}

/// One row. Every field but `name` and `rewound` is always present. If the title matched, the fields that only messages
/// have are null.
#[derive(Debug, Clone)]
pub struct SearchRow<'a> {
    /// The part of the text that has the match.
    pub snippet: String,
    /// The conversation.
    pub conversation: ConversationId,
    /// The session of the message. If the title matched, the head.
    pub session: &'a SessionId,
    /// The id or slug that a client chose for the conversation.
    pub name: Option<&'a str>,
    /// That session's kind.
    pub kind: SessionKind,
    /// The conversation's origin.
    pub origin_kind: SessionKind,
    /// The conversation's title.
    pub title: Option<&'a str>,
    /// The message. `None` if the title matched.
    pub message: Option<(MessageId, Role, MessageStatus)>,
    /// Whether a rewind has taken the message out of the model's view.
    pub rewound: bool,
    /// When the message was stored. If the title matched, when the conversation was made.
    pub created_at: Timestamp,
}

impl Serialize for SearchRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("object", "search_result")?;
        row.serialize_entry("matched", if self.message.is_some() { "message" } else { "title" })?;
        row.serialize_entry("snippet", &self.snippet)?;
        row.serialize_entry("conversation_id", &self.conversation)?;
        row.serialize_entry("session_id", self.session)?;
        if let Some(name) = self.name {
            row.serialize_entry("name", name)?;
        }
        row.serialize_entry("kind", &self.kind)?;
        row.serialize_entry("origin_kind", &self.origin_kind)?;
        row.serialize_entry("title", &self.title)?;
        row.serialize_entry("message_id", &self.message.map(|(id, _, _)| id))?;
        row.serialize_entry("role", &self.message.map(|(_, role, _)| role.as_str()))?;
        row.serialize_entry("status", &self.message.map(|(_, _, status)| status.as_str()))?;
        if self.rewound {
            row.serialize_entry("rewound", &true)?;
        }
        row.serialize_entry("created_at", &rfc3339(self.created_at))?;
        row.end()
    }
}

/// Reads a moment as RFC 3339, or a date as its beginning in UTC.
pub fn moment(text: &str) -> Option<Timestamp> {
    let day = || {
        let date: jiff::civil::Date = text.parse().ok()?;
        Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let moment: jiff::Timestamp = if text.contains(['T', 't', ' ']) { text.parse().ok()? } else { day()? };
    Some(Timestamp(moment.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_can_be_put_into_a_page() {
        let pieces = [("<b onclick='x'>", false), ("a&b", true), ("</mark>", false)];
        assert_eq!(Marks::Html.write(pieces), "&lt;b onclick=&#39;x&#39;&gt;<mark>a&amp;b</mark>&lt;/mark&gt;");
        assert_eq!(Marks::None.write(pieces), "<b onclick='x'>a&b</mark>");
    }

    #[test]
    fn moments_are_read_with_their_zone_and_days_from_their_beginning() {
        for (text, expected) in [
            ("1970-01-01T00:00:01.5Z", Some(1500)),
            ("1970-01-01T01:00:00+01:00", Some(0)),
            ("1970-01-02", Some(86_400_000)),
            ("1970-01-01T00:00:00", None),
            ("yesterday", None),
            ("1970-13-01", None),
        ] {
            assert_eq!(moment(text), expected.map(Timestamp), "{text}");
        }
    }
}

//! Lists of conversations, page by page, with keyset cursors. New rows cause no skipped or repeated rows, and every
//! page costs the same.
//!
//! A cursor belongs to one list: its text has a digest of the filters and the order. Any other list refuses it.

use herma_model::{Alias, Digest, SessionKey, SessionKind, Timestamp};

/// Where a page begins: after this row. Only the engine that gave it can interpret it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The time by which the list is ordered.
    pub at: Timestamp,
    /// The engine's own key of the conversation.
    pub row: i64,
    /// In a list of sessions, the engine's own key of the session; 0 if all sessions of the conversation were listed.
    pub session: i64,
}

/// Why a text is not a cursor of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCursor {
    /// The text has not the form of a cursor.
    #[error("is not a cursor")]
    Malformed,
    /// It was given for another list.
    #[error("belongs to another list: it is good for the filters and the order it was given with")]
    OtherList,
}

/// What a row of a list stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListView {
    /// A conversation, at its head.
    #[default]
    Conversations,
    /// A session, live or ended. The sessions of a conversation are adjacent, in the order of the list.
    Sessions,
}

/// The order of a list. A conversation that changes while a list by change time is read moves to its new place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListOrder {
    /// Most recently changed first.
    #[default]
    UpdatedDescending,
    /// Least recently changed first.
    UpdatedAscending,
    /// Newest first.
    CreatedDescending,
    /// Oldest first.
    CreatedAscending,
}

impl ListOrder {
    /// Whether the list is ordered by creation time.
    pub const fn is_by_creation(self) -> bool {
        matches!(self, Self::CreatedDescending | Self::CreatedAscending)
    }

    /// Whether earlier times come first.
    pub const fn is_ascending(self) -> bool {
        matches!(self, Self::UpdatedAscending | Self::CreatedAscending)
    }
}

/// Whether archived conversations are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Archived {
    /// They are left out.
    #[default]
    Hidden,
    /// Only they are listed.
    Only,
    /// They are listed like all others.
    Any,
}

/// Which conversations to list. A field that is `None` does not filter.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// What a row stands for.
    pub view: ListView,
    /// The order.
    pub order: ListOrder,
    /// Only rows of this kind: the head's kind for a conversation, its own kind for a session.
    pub kind: Option<SessionKind>,
    /// Only this origin.
    pub origin_kind: Option<SessionKind>,
    /// Only user-facing conversations, or only the others.
    pub user_facing: Option<bool>,
    /// Only conversations whose person works in this directory.
    pub cwd: Option<String>,
    /// Only conversations from this front door.
    pub source: Option<String>,
    /// Only this session key.
    pub session_key: Option<SessionKey>,
    /// Only direct children of the conversation that this name leads to; none if it leads nowhere. In a list of
    /// sessions a session's own name means exactly that session as parent. Its continuation is a child too.
    pub parent: Option<Alias>,
    /// Only conversations with the same first session as the one that this name leads to.
    pub root: Option<Alias>,
    /// Only titles that contain this text, ignoring case.
    pub title: Option<String>,
    /// Only rows that last changed at this time or later.
    pub since: Option<Timestamp>,
    /// Only rows that last changed before this time.
    pub until: Option<Timestamp>,
    /// Only conversations of which an id begins or ends with this text: their own, or that of a session. No index
    /// helps, so most pages have few rows or none; read on until there is no cursor.
    pub id_part: Option<String>,
    /// Whether archived conversations are listed.
    pub archived: Archived,
    /// Only conversations that a model has answered at least once, or only the others. Inherited answers count. A
    /// conversation that has no turns and inherits nothing is unanswered.
    pub answered: Option<bool>,
    /// Only after this row.
    pub after: Option<Cursor>,
    /// How many rows to skip before the page, for callers that count rows. A skipped row costs as much as a row that is
    /// read.
    pub skip: Option<usize>,
    /// The maximum number of rows. A page with fewer rows may still not be the last, if the filter excludes nearly
    /// everything. For callers that use `skip`, such a page has at least one row.
    pub limit: usize,
}

impl ListFilter {
    /// Writes a cursor of this list as text.
    pub fn write_cursor(&self, cursor: Cursor) -> String {
        format!("{:x}.{:x}.{:x}.{:?}", cursor.at.0, cursor.row, cursor.session, self.digest())
    }

    /// Reads a cursor that was written for this list. The page size may be different.
    pub fn read_cursor(&self, text: &str) -> Result<Cursor, InvalidCursor> {
        let parts: Vec<&str> = text.split('.').collect();
        let [at, row, session, digest] = parts[..] else { return Err(InvalidCursor::Malformed) };
        let number = |text| i64::from_str_radix(text, 16).map_err(|_| InvalidCursor::Malformed);
        let cursor = Cursor { at: Timestamp(number(at)?), row: number(row)?, session: number(session)? };
        if digest != format!("{:?}", self.digest()) {
            return Err(InvalidCursor::OtherList);
        }
        Ok(cursor)
    }

    /// Digest of everything in the filter except the page.
    fn digest(&self) -> Digest {
        let word = |text: Option<&str>| text.map_or_else(String::new, |text| format!("={text}"));
        let moment = |at: Option<Timestamp>| at.map_or_else(String::new, |at| at.0.to_string());
        let mut fields = vec![
            format!("{:?} {:?} {:?} {:?}", self.view, self.order, self.archived, self.user_facing),
            word(self.answered.map(|answered| if answered { "answered" } else { "unanswered" })),
            word(self.kind.map(SessionKind::as_str)),
            word(self.origin_kind.map(SessionKind::as_str)),
            word(self.source.as_deref()),
            word(self.session_key.as_ref().map(SessionKey::as_str)),
            word(self.parent.as_ref().map(Alias::as_str)),
            word(self.root.as_ref().map(Alias::as_str)),
            word(self.title.as_deref()),
            word(self.cwd.as_deref()),
            moment(self.since),
            moment(self.until),
        ];
        // Cursors of all other lists stay as they were in earlier releases.
        fields.extend(self.id_part.as_deref().map(|part| format!("id={part}")));
        Digest::of_fields(fields.iter().map(String::as_bytes))
    }
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<Cursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_own_list_alone() {
        let cursor = Cursor { at: Timestamp(1_790_000_000_123), row: 42, session: 7 };
        let own = ListFilter { limit: 10, title: Some("sea".to_owned()), ..ListFilter::default() };
        let text = own.write_cursor(cursor);
        let next = ListFilter { limit: 20, after: Some(cursor), ..own.clone() };
        assert_eq!(next.read_cursor(&text), Ok(cursor));
        let name = || Alias::parse("trip").ok();
        for other in [
            ListFilter { view: ListView::Sessions, ..own.clone() },
            ListFilter { order: ListOrder::UpdatedAscending, ..own.clone() },
            ListFilter { kind: Some(SessionKind::Main), ..own.clone() },
            ListFilter { origin_kind: Some(SessionKind::Main), ..own.clone() },
            ListFilter { user_facing: Some(true), ..own.clone() },
            ListFilter { source: Some(String::new()), ..own.clone() },
            ListFilter { session_key: SessionKey::parse("mine").ok(), ..own.clone() },
            ListFilter { parent: name(), ..own.clone() },
            ListFilter { root: name(), ..own.clone() },
            ListFilter { title: Some("lake".to_owned()), ..own.clone() },
            ListFilter { title: None, ..own.clone() },
            ListFilter { since: Some(Timestamp(1)), ..own.clone() },
            ListFilter { until: Some(Timestamp(1)), ..own.clone() },
            ListFilter { answered: Some(true), ..own.clone() },
            ListFilter { cwd: Some("/srv".to_owned()), ..own.clone() },
            ListFilter { id_part: Some("0190".to_owned()), ..own.clone() },
            ListFilter { archived: Archived::Any, ..own },
        ] {
            assert_eq!(other.read_cursor(&text), Err(InvalidCursor::OtherList), "{other:?}");
        }
    }

    #[test]
    fn other_text_is_not_a_cursor() {
        let own = ListFilter::default();
        for text in ["", "nonsense", "1.2.3", "x.2.3.4", "1.2.3.4.5"] {
            assert_eq!(own.read_cursor(text), Err(InvalidCursor::Malformed), "{text}");
        }
        assert_eq!(own.read_cursor("1.2.3.4"), Err(InvalidCursor::OtherList));
    }
}

//! Lists of conversations, a page at a time, by keyset: a page neither skips nor repeats while rows are added, and costs the same wherever in
//! the list it lies.
//!
//! A cursor is bound to its list: its text carries a digest of what was asked for, and is refused by any other list.

use herma_model::{Alias, Digest, SessionKey, SessionKind, Timestamp};

/// Where a page begins: after this row. Opaque but for the engine that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The moment by which the list is ordered.
    pub at: Timestamp,
    /// The engine's own key of the conversation.
    pub row: i64,
    /// The engine's own key of the session, in a list of sessions; 0 if all of the conversation's were seen.
    pub session: i64,
}

/// Why a text is not the cursor of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCursor {
    /// Nobody wrote it.
    #[error("is not a cursor")]
    Malformed,
    /// It was given for another list.
    #[error("belongs to another list: it is good for the filters and the order it was given with")]
    OtherList,
}

/// What a list has a row for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListView {
    /// A conversation, at its head.
    #[default]
    Conversations,
    /// A session, live or ended. The sessions of a conversation stand together, in the order of the list.
    Sessions,
}

/// In which order a list is read. A conversation that changes while a list is read by change moves to where it belongs then.
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
    /// Whether it goes by the moment of creation.
    pub const fn is_by_creation(self) -> bool {
        matches!(self, Self::CreatedDescending | Self::CreatedAscending)
    }

    /// Whether earlier moments come first.
    pub const fn is_ascending(self) -> bool {
        matches!(self, Self::UpdatedAscending | Self::CreatedAscending)
    }
}

/// Whether conversations that were put away are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Archived {
    /// They are not.
    #[default]
    Hidden,
    /// Only they are.
    Only,
    /// Like any other.
    Any,
}

/// Which conversations to list. What is absent is not asked for.
#[derive(Debug, Clone, Default)]
pub struct ListFilter {
    /// Rows of what.
    pub view: ListView,
    /// In which order.
    pub order: ListOrder,
    /// Only this kind of row: of a conversation its head's, of a session its own.
    pub kind: Option<SessionKind>,
    /// Only this origin.
    pub origin_kind: Option<SessionKind>,
    /// Only what a person looks at, or only what none does.
    pub user_facing: Option<bool>,
    /// Only from this door.
    pub source: Option<String>,
    /// Only this session key.
    pub session_key: Option<SessionKey>,
    /// Only direct children of the conversation that this name leads to. In a list of sessions, if the name is a session's, only those whose
    /// parent is that very session, its continuation included. Of what is not there, nothing.
    pub parent: Option<Alias>,
    /// Only what has the same first session as the conversation that this name leads to.
    pub root: Option<Alias>,
    /// Only titles that contain this, in whatever case.
    pub title: Option<String>,
    /// Only what changed at this moment or later.
    pub since: Option<Timestamp>,
    /// Only what changed last before this moment.
    pub until: Option<Timestamp>,
    /// What was put away.
    pub archived: Archived,
    /// Only what a model has answered at least once, or only the rest. What a branch inherits counts;
    /// what has no turns and inherits nothing is unanswered.
    pub answered: Option<bool>,
    /// Only after this row.
    pub after: Option<Cursor>,
    /// How many rows to leave out before the page begins, for callers that count rows. They cost what reading them costs.
    pub skip: Option<usize>,
    /// Most rows. A page may have fewer and still not be the last: that of a filter which leaves nearly everything out. For callers that count
    /// rows it has at least one then.
    pub limit: usize,
}

impl ListFilter {
    /// A cursor as text, for this list.
    pub fn write_cursor(&self, cursor: Cursor) -> String {
        format!("{:x}.{:x}.{:x}.{:?}", cursor.at.0, cursor.row, cursor.session, self.digest())
    }

    /// Reads a cursor that was written for this list; the size of a page may be another one.
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

    /// What is asked for, but for the page.
    fn digest(&self) -> Digest {
        let word = |text: Option<&str>| text.map_or_else(String::new, |text| format!("={text}"));
        let moment = |at: Option<Timestamp>| at.map_or_else(String::new, |at| at.0.to_string());
        let fields = [
            format!("{:?} {:?} {:?} {:?}", self.view, self.order, self.archived, self.user_facing),
            word(self.answered.map(|answered| if answered { "answered" } else { "unanswered" })),
            word(self.kind.map(SessionKind::as_str)),
            word(self.origin_kind.map(SessionKind::as_str)),
            word(self.source.as_deref()),
            word(self.session_key.as_ref().map(SessionKey::as_str)),
            word(self.parent.as_ref().map(Alias::as_str)),
            word(self.root.as_ref().map(Alias::as_str)),
            word(self.title.as_deref()),
            moment(self.since),
            moment(self.until),
        ];
        Digest::of_fields(fields.iter().map(String::as_bytes))
    }
}

/// A page of a list.
#[derive(Debug, Clone)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where the next page begins; absent on the last one.
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
            ListFilter { archived: Archived::Any, ..own },
        ] {
            assert_eq!(other.read_cursor(&text), Err(InvalidCursor::OtherList), "{other:?}");
        }
    }

    #[test]
    fn what_nobody_wrote_is_no_cursor() {
        let own = ListFilter::default();
        for text in ["", "nonsense", "1.2.3", "x.2.3.4", "1.2.3.4.5"] {
            assert_eq!(own.read_cursor(text), Err(InvalidCursor::Malformed), "{text}");
        }
        assert_eq!(own.read_cursor("1.2.3.4"), Err(InvalidCursor::OtherList));
    }
}

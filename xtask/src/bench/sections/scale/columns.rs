//! How each column of a row is changed in a copy. A column without a rule is copied unchanged.

/// The tables whose rows are copied.
pub(super) const COPIED: [Table; 8] = [
    Table::Conversations,
    Table::Sessions,
    Table::Aliases,
    Table::Turns,
    Table::Messages,
    Table::Compactions,
    Table::Carried,
    Table::Pins,
];

/// The tables that are not copied. Their rows exist once, are temporary, or are derived from other tables.
#[cfg(test)]
pub(super) const NOT_COPIED: [&str; 31] = [
    "admissions",
    "tenants",
    "api_keys",
    "instances",
    "turn_journal",
    "idempotency",
    "waiting_messages",
    "parked_turns",
    "approvals",
    "grants",
    "imports",
    "migrations",
    "search_state",
    "search_again",
    "search_forget",
    "search_common",
    "events",
    "expiry",
    "memories",
    "memory_words",
    "recalls",
    "erasures",
    "turn_numbers",
    "outbox",
    "outbox_scopes",
    "outbox_conversations",
    "outbox_state",
    "memory_versions",
    "memory_state",
    "readings",
    "reading_state",
];

/// A table of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Conversations,
    Sessions,
    Aliases,
    Turns,
    Messages,
    Compactions,
    Carried,
    Pins,
}

impl Table {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Conversations => "conversations",
            Self::Sessions => "sessions",
            Self::Aliases => "aliases",
            Self::Turns => "turns",
            Self::Messages => "messages",
            Self::Compactions => "compactions",
            Self::Carried => "carried",
            Self::Pins => "pins",
        }
    }
}

/// How a column is changed in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Unchanged.
    Same,
    /// The key of a row in that table; 0 means none.
    Key(Table),
    /// An id as bytes.
    Id,
    /// A name, or an id as text.
    Name,
    /// A timestamp.
    Time,
    /// A session key.
    SessionKey,
    /// The source of a conversation.
    Source,
    /// A title.
    Title,
    /// A message, as JSON.
    Payload,
    /// The digest of a message.
    Digest,
    /// The estimated tokens of a message.
    Tokens,
}

/// The rule for a column.
pub(super) fn rule(table: Table, column: &str) -> Rule {
    match (table, column) {
        (_, "pk") => Rule::Key(table),
        (_, "conversation_pk") | (Table::Conversations, "parent_pk") => Rule::Key(Table::Conversations),
        (_, "session_pk" | "head_pk" | "root_pk" | "previous_pk" | "base_session_pk")
        | (_, "session_before_pk" | "session_after_pk" | "tail_session_pk")
        | (Table::Sessions, "parent_pk") => Rule::Key(Table::Sessions),
        (_, "turn_pk") => Rule::Key(Table::Turns),
        (_, "message_pk" | "summary_pk") => Rule::Key(Table::Messages),
        (_, "compaction_pk" | "base_compaction_pk" | "base_pk" | "undoes_pk" | "undone_by_pk") => {
            Rule::Key(Table::Compactions)
        }
        (_, "created_at" | "updated_at" | "ended_at") => Rule::Time,
        (Table::Sessions, "id" | "parent_id") | (Table::Aliases, "alias") => Rule::Name,
        (_, "id") => Rule::Id,
        (Table::Conversations, "session_key") => Rule::SessionKey,
        (Table::Conversations, "source") => Rule::Source,
        (Table::Conversations, "title") => Rule::Title,
        (Table::Messages, "payload") => Rule::Payload,
        (Table::Messages, "digest") => Rule::Digest,
        (Table::Messages, "tokens") => Rule::Tokens,
        _ => Rule::Same,
    }
}

#[cfg(test)]
mod tests {
    use herma_store_sqlite::SqliteStore;
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn every_table_and_every_reference_of_the_store_has_a_rule() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("herma.db");
        drop(SqliteStore::open(&path).unwrap());
        let database = Connection::open(&path).unwrap();
        let mut tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
        let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let is_derived = |name: &str| ["sqlite_", "search_index"].iter().any(|of| name.starts_with(of));
        for name in tables.iter().filter(|name| !is_derived(name)) {
            let Some(table) = COPIED.into_iter().find(|table| table.name() == name) else {
                assert!(NOT_COPIED.contains(&name.as_str()), "{name}: is it copied or not?");
                continue;
            };
            let mut columns = database.prepare("SELECT name FROM pragma_table_info(?1)").unwrap();
            for column in columns.query_map([name], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap) {
                let refers = (column.ends_with("_pk") && column != "tenant_pk") || column.ends_with("_at");
                assert!(!refers || rule(table, &column) != Rule::Same, "{name}.{column} has no rule");
            }
        }
    }
}

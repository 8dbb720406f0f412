//! The stored form of a conversation's rewinds: a JSON array of ranges, or nothing.

use herma_model::Rewinds;
use rusqlite::types::Type;
use rusqlite::{Connection, Row};

use crate::failure::{StoreResult, Translate};

/// An SQL condition: no rewind hides `place`. `rewinds` is a column or a parameter with the stored form.
pub(crate) fn shows(place: &str, rewinds: &str) -> String {
    format!(
        "NOT EXISTS (SELECT 1 FROM json_each({rewinds}) w
         WHERE {place} > w.value ->> 'after' AND {place} <= w.value ->> 'through')"
    )
}

/// The rewinds of a conversation.
pub(crate) fn of(connection: &Connection, conversation: i64) -> StoreResult<Rewinds> {
    connection
        .prepare_cached("SELECT rewinds FROM conversations WHERE pk = ?1")
        .and_then(|mut select| select.query_row([conversation], |row| read(row, 0)))
        .translated()
}

/// Reads the stored form. Unreadable data is an error; ignoring it would show the model what was rewound.
pub(crate) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Rewinds> {
    let Some(stored) = row.get_ref(column)?.as_str_or_null()? else { return Ok(Rewinds::default()) };
    serde_json::from_str(stored)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

/// The stored form.
pub(crate) fn to(rewinds: &Rewinds) -> Option<String> {
    if rewinds.is_empty() { None } else { serde_json::to_string(rewinds).ok() }
}

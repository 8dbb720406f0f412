//! Cells of tables whose columns may hold values of any type.

use rusqlite::Row;
use rusqlite::types::ValueRef;

/// A cell as text.
pub(super) enum Cell {
    Nothing,
    Text(String),
    /// Bytes that are not text.
    Damaged,
}

impl Cell {
    pub(super) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        Ok(match row.get_ref(column)? {
            ValueRef::Null => Self::Nothing,
            ValueRef::Integer(number) => Self::Text(number.to_string()),
            ValueRef::Real(number) => Self::Text(number.to_string()),
            ValueRef::Text(bytes) => {
                std::str::from_utf8(bytes).map_or(Self::Damaged, |text| Self::Text(text.to_owned()))
            }
            ValueRef::Blob(_) => Self::Damaged,
        })
    }
}

/// A text. `None` if it is missing or cannot be read.
pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(match Cell::read(row, column)? {
        Cell::Text(text) if !text.is_empty() => Some(text),
        _ => None,
    })
}

/// A number. `None` if it is missing.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<f64>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok()),
        ValueRef::Null | ValueRef::Blob(_) => None,
    })
}

/// A count. Zero if it is missing.
pub(super) fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(number(row, column)?.filter(|number| *number > 0.0).map_or(0, |number| number as u64))
}

/// A boolean. `otherwise` if it is missing.
pub(super) fn switch(row: &Row<'_>, column: usize, otherwise: bool) -> rusqlite::Result<bool> {
    Ok(number(row, column)?.map_or(otherwise, |number| number != 0.0))
}

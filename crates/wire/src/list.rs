//! A page of rows.

use serde::Serialize;

/// One page of a list, and how to get the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page<T> {
    object: &'static str,
    data: Vec<T>,
    has_more: bool,
    next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// A page; without a cursor it is the last one.
    pub fn new(data: Vec<T>, next_cursor: Option<String>) -> Self {
        Self { object: "list", data, has_more: next_cursor.is_some(), next_cursor }
    }
}

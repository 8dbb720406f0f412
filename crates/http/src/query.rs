//! Query strings. A request with an unknown parameter is refused.

use std::collections::HashMap;

use axum::extract::Query;
use herma_model::limits::{DEFAULT_PAGE, MAX_PAGE};

use crate::error::ApiError;

/// The parameters of a request.
pub(crate) struct Parameters(HashMap<String, String>);

impl Parameters {
    /// Checks the query. A parameter that the route does not know is an error.
    pub(crate) fn of(Query(query): Query<HashMap<String, String>>, known: &[&str]) -> Result<Self, ApiError> {
        if let Some(unknown) = query.keys().find(|name| !known.contains(&name.as_str())) {
            let message = format!("'{unknown}' is not a parameter of this route; it takes {}", known.join(", "));
            return Err(ApiError::invalid(message, unknown));
        }
        Ok(Self(query))
    }

    /// A parameter that was given and is not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A parameter that `parse` reads. If it returns `None`, the error says what is `allowed`.
    pub(crate) fn parsed<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Option<T>,
        allowed: &str,
    ) -> Result<Option<T>, ApiError> {
        self.get(name)
            .map(|value| parse(value).ok_or_else(|| ApiError::invalid(format!("{name} must be {allowed}"), name)))
            .transpose()
    }

    /// The cursor of a list whose cursors are numbers.
    pub(crate) fn numeric_cursor(&self) -> Result<Option<i64>, ApiError> {
        let number = |text: &str| text.parse().ok().filter(|at| *at >= 0);
        self.parsed("cursor", number, "the next_cursor of an earlier page")
    }

    /// The most rows that a page may have.
    pub(crate) fn limit(&self) -> Result<usize, ApiError> {
        let in_range = |value: &str| value.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
        Ok(self.parsed("limit", in_range, &format!("a number from 1 to {MAX_PAGE}"))?.unwrap_or(DEFAULT_PAGE))
    }
}

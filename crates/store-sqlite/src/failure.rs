//! Translates SQLite's errors into those of the port.

use herma_store::StoreError;
use rusqlite::ErrorCode;

/// Result of an operation inside a transaction.
pub(crate) type StoreResult<T> = Result<T, StoreError>;

/// What an SQLite error means to the gateway.
pub(crate) fn translate(error: &rusqlite::Error) -> StoreError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::Unusable(format!("the database is damaged or not a Herma database ({text})"))
        }
        Some(ErrorCode::DiskFull) => {
            StoreError::Unavailable("the disk is full; free some space and try again".to_owned())
        }
        // A statement that fails on this file now will also fail later.
        Some(
            ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::ApiMisuse
            | ErrorCode::ParameterOutOfRange
            | ErrorCode::TooBig
            | ErrorCode::Unknown,
        ) => StoreError::Failed(text),
        None => StoreError::Failed(text),
        Some(_) => StoreError::Unavailable(text),
    }
}

/// `?` for SQLite results.
pub(crate) trait Translate<T> {
    /// Turns SQLite's error into the port's.
    fn translated(self) -> StoreResult<T>;
}

impl<T> Translate<T> for rusqlite::Result<T> {
    fn translated(self) -> StoreResult<T> {
        self.map_err(|error| translate(&error))
    }
}

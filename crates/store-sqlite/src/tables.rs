//! The rows of a conversation: one struct and one INSERT for each table, used by all writers of such rows.
//!
//! A field of a struct is a column of the same name, so a new column is one line here. A writer sets what it knows and
//! takes the rest from `Default`, which states the default of each column. Columns that always have their default in a
//! new row, such as `running_turn`, are left to the schema.
//!
//! No INSERT here has a RETURNING clause: SQLite keeps a journal for such statements, which grows with the transaction.

mod aliases;
mod approvals;
mod compactions;
mod conversations;
mod messages;
mod sessions;
mod turns;

use rusqlite::{Connection, ToSql};

pub(crate) use self::aliases::{Names, alias};
pub(crate) use self::approvals::{insert_grant, insert_parked};
pub(crate) use self::compactions::{CompactionColumns, add_compaction, carry, pin};
pub(crate) use self::conversations::{ConversationColumns, chain};
pub(crate) use self::messages::insert_message;
pub(crate) use self::sessions::{SessionColumns, next_session, set_base};
pub(crate) use self::turns::{TurnColumns, insert_turn, next_turn};
use crate::failure::{StoreResult, Translate};

/// A row that can be written. [`table`] implements it.
pub(crate) trait Row {
    /// Adds the row.
    const INSERT: &'static str;
    /// Overwrites another row, whose key is the last parameter.
    const REPLACE: &'static str;

    /// Calls `run` with the values of all columns, in the order of the statements.
    fn with_values<T>(&self, run: impl FnOnce(&[&dyn ToSql]) -> T) -> T;
}

/// Adds a row, and returns its key.
pub(crate) fn insert<R: Row>(connection: &Connection, row: &R) -> StoreResult<i64> {
    let mut insert = connection.prepare_cached(R::INSERT).translated()?;
    row.with_values(|values| insert.execute(values)).translated()?;
    Ok(connection.last_insert_rowid())
}

/// Overwrites the row with this key.
pub(crate) fn replace<R: Row>(connection: &Connection, key: i64, row: &R) -> StoreResult<()> {
    let mut update = connection.prepare_cached(R::REPLACE).translated()?;
    row.with_values(|values| update.execute(&*[values, &[&key]].concat())).map(drop).translated()
}

/// Declares the columns of a table that are written when a row is added. A column without `=` has Rust's default.
macro_rules! table {
    (
        $(#[$about:meta])*
        $name:ident<$life:lifetime> in $table:literal {
            $first:ident: $first_type:ty,
            $($column:ident: $type:ty $(= $default:expr)?,)+
        }
    ) => {
        $(#[$about])*
        pub(crate) struct $name<$life> {
            pub(crate) $first: $first_type,
            $(pub(crate) $column: $type,)+
        }

        impl<$life> Default for $name<$life> {
            fn default() -> Self {
                Self {
                    $first: Default::default(),
                    $($column: $crate::tables::table!(@default $($default)?),)+
                }
            }
        }

        impl $crate::tables::Row for $name<'_> {
            const INSERT: &'static str = concat!(
                "INSERT INTO ", $table, " (", stringify!($first), $(", ", stringify!($column),)+
                ") VALUES (?", $($crate::tables::table!(@parameter $column),)+ ")",
            );
            const REPLACE: &'static str = concat!(
                "UPDATE ", $table, " SET ", stringify!($first), " = ?", $(", ", stringify!($column), " = ?",)+
                " WHERE pk = ?",
            );

            fn with_values<T>(&self, run: impl FnOnce(&[&dyn rusqlite::ToSql]) -> T) -> T {
                run(&[&self.$first, $(&self.$column,)+])
            }
        }
    };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@parameter $column:ident) => { ", ?" };
}
use table;

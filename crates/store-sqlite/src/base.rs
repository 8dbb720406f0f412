//! The base of a session: the compaction whose summary replaces everything before a place.

use herma_model::compaction::MadeBy;
use herma_model::{Base, CompactionId, Rewinds, Seq};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::failure::{StoreResult, Translate};
use crate::rows::{self, MESSAGE, MESSAGE_WIDTH, SUMMARY};

/// A compaction that is the base of a session.
#[derive(Clone, Copy)]
pub(crate) struct CompactionBase {
    pub(crate) key: i64,
    /// The conversation in whose ledger it is. For a branch this may be the source.
    pub(crate) conversation: i64,
    pub(crate) id: CompactionId,
    /// The last place that its summary replaces.
    pub(crate) through: i64,
    /// All later messages are in this session or after it.
    pub(crate) tail: i64,
    /// The base of this compaction.
    pub(crate) below: Option<i64>,
}

const BASE_COLUMNS: &str = "k.pk, k.id, k.through_seq, k.tail_session_pk, k.base_pk, k.conversation_pk";

impl CompactionBase {
    /// The base of a session. `None` if nothing was compacted.
    pub(crate) fn of_session(connection: &Connection, session: i64) -> StoreResult<Option<Self>> {
        connection
            .prepare_cached(&format!(
                "SELECT {BASE_COLUMNS} FROM sessions s JOIN compactions k ON k.pk = s.base_compaction_pk
                 WHERE s.pk = ?1"
            ))
            .and_then(|mut select| select.query_row([session], Self::read).optional())
            .translated()
    }

    /// The base that the model is shown. If a rewind hides the summary of the session's base, it is the next base
    /// beneath whose summary is visible.
    pub(crate) fn shown(connection: &Connection, session: i64, rewinds: &Rewinds) -> StoreResult<Option<Self>> {
        let compaction_base = Self::of_session(connection, session)?;
        if rewinds.is_empty() {
            return Ok(compaction_base);
        }
        Self::first_of(connection, compaction_base, |summary, compaction_base| {
            !rewinds.hide_summary(summary, Seq(compaction_base.through))
        })
    }

    /// The base that the model was shown when `place` was the last. `rewinds` are those that had been made by then.
    pub(crate) fn at(
        connection: &Connection,
        session: i64,
        place: i64,
        rewinds: &Rewinds,
    ) -> StoreResult<Option<Self>> {
        let compaction_base = Self::of_session(connection, session)?;
        Self::first_of(connection, compaction_base, |summary, compaction_base| {
            summary.0 <= place && !rewinds.hide_summary(summary, Seq(compaction_base.through))
        })
    }

    /// The first base that `is_wanted` accepts, from a compaction downwards.
    fn first_of(
        connection: &Connection,
        mut compaction_base: Option<Self>,
        is_wanted: impl Fn(Seq, Self) -> bool,
    ) -> StoreResult<Option<Self>> {
        while let Some(later) = compaction_base {
            if later.summary_place(connection)?.is_some_and(|summary| is_wanted(summary, later)) {
                break;
            }
            compaction_base = later.beneath(connection)?;
        }
        Ok(compaction_base)
    }

    fn summary_place(self, connection: &Connection) -> StoreResult<Option<Seq>> {
        connection
            .prepare_cached("SELECT m.seq FROM compactions k JOIN messages m ON m.pk = k.summary_pk WHERE k.pk = ?1")
            .and_then(|mut select| select.query_row([self.key], |row| row.get(0).map(Seq)).optional())
            .translated()
    }

    /// The base of this compaction.
    pub(crate) fn beneath(self, connection: &Connection) -> StoreResult<Option<Self>> {
        let Some(key) = self.below else { return Ok(None) };
        connection
            .prepare_cached(&format!("SELECT {BASE_COLUMNS} FROM compactions k WHERE k.pk = ?1"))
            .and_then(|mut select| select.query_row([key], Self::read))
            .map(Some)
            .translated()
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            id: CompactionId::from_uuid(rows::uuid(row, 1)?),
            through: row.get(2)?,
            tail: row.get(3)?,
            below: row.get(4)?,
            conversation: row.get(5)?,
        })
    }

    /// Its summary, and the messages that it carries.
    pub(crate) fn base(self, connection: &Connection) -> StoreResult<Base> {
        let (summary, made_by) = connection
            .prepare_cached(&format!(
                "SELECT {SUMMARY}, k.made_by FROM compactions k JOIN messages m ON m.pk = k.summary_pk
                 JOIN sessions s ON s.pk = m.session_pk WHERE k.pk = ?1"
            ))
            .and_then(|mut select| {
                let read = |row: &Row<'_>| Ok((rows::summary(row, 0)?, rows::word(row, MESSAGE_WIDTH, MadeBy::parse)?));
                select.query_row([self.key], read)
            })
            .translated()?;
        let carried = connection
            .prepare_cached(&format!(
                "SELECT {MESSAGE} FROM carried c JOIN messages m ON m.pk = c.message_pk
                 JOIN sessions s ON s.pk = m.session_pk
                 JOIN turns t ON t.pk = m.turn_pk WHERE c.compaction_pk = ?1 ORDER BY c.seq"
            ))
            .and_then(|mut select| select.query_map([self.key], |row| rows::message(row).map(Into::into))?.collect())
            .translated()?;
        Ok(Base { through: Seq(self.through), summary, carried, made_by })
    }
}

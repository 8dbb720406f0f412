//! What a session stands on: the compaction whose summary stands for everything before a point.

use herma_model::{Base, CompactionId, Seq};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::failure::{Outcome, Translate};
use crate::rows::{self, MESSAGE, SUMMARY};

/// A compaction as that which a session stands on.
#[derive(Clone, Copy)]
pub(crate) struct Ground {
    pub(crate) key: i64,
    /// Whose ledger it is in: of a branch, perhaps the source's.
    pub(crate) conversation: i64,
    pub(crate) id: CompactionId,
    /// The last message it stands for.
    pub(crate) through: i64,
    /// No later message lies in an earlier session than this.
    pub(crate) tail: i64,
    /// The compaction beneath it.
    pub(crate) below: Option<i64>,
}

const GROUND: &str = "k.pk, k.id, k.through_seq, k.tail_session_pk, k.base_pk, k.conversation_pk";

impl Ground {
    /// What a session stands on, if anything was compacted away.
    pub(crate) fn of_session(connection: &Connection, session: i64) -> Outcome<Option<Self>> {
        connection
            .prepare_cached(&format!(
                "SELECT {GROUND} FROM sessions s JOIN compactions k ON k.pk = s.base_compaction_pk WHERE s.pk = ?1"
            ))
            .and_then(|mut select| select.query_row([session], Self::read).optional())
            .translated()
    }

    /// What a session stood on when a place in it was the last.
    pub(crate) fn at(connection: &Connection, session: i64, place: i64) -> Outcome<Option<Self>> {
        let mut ground = Self::of_session(connection, session)?;
        while let Some(later) = ground {
            if later.was_made_by(connection, place)? {
                break;
            }
            ground = later.beneath(connection)?;
        }
        Ok(ground)
    }

    fn was_made_by(self, connection: &Connection, place: i64) -> Outcome<bool> {
        connection
            .prepare_cached(
                "SELECT 1 FROM compactions k JOIN messages m ON m.pk = k.summary_pk WHERE k.pk = ?1 AND m.seq <= ?2",
            )
            .and_then(|mut select| select.exists([self.key, place]))
            .translated()
    }

    /// What this one stands on itself.
    pub(crate) fn beneath(self, connection: &Connection) -> Outcome<Option<Self>> {
        let Some(key) = self.below else { return Ok(None) };
        connection
            .prepare_cached(&format!("SELECT {GROUND} FROM compactions k WHERE k.pk = ?1"))
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

    /// Its summary, and what it carries.
    pub(crate) fn base(self, connection: &Connection) -> Outcome<Base> {
        let summary = connection
            .prepare_cached(&format!(
                "SELECT {SUMMARY} FROM compactions k JOIN messages m ON m.pk = k.summary_pk JOIN sessions s ON s.pk = m.session_pk WHERE k.pk = ?1"
            ))
            .and_then(|mut select| select.query_row([self.key], |row| rows::summary(row, 0)))
            .translated()?;
        let carried = connection
            .prepare_cached(&format!(
                "SELECT {MESSAGE} FROM carried c JOIN messages m ON m.pk = c.message_pk JOIN sessions s ON s.pk = m.session_pk
                 JOIN turns t ON t.pk = m.turn_pk WHERE c.compaction_pk = ?1 ORDER BY c.seq"
            ))
            .and_then(|mut select| select.query_map([self.key], |row| rows::message(row).map(Into::into))?.collect())
            .translated()?;
        Ok(Base { through: Seq(self.through), summary, carried })
    }
}

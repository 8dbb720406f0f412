//! Rows that may be hits, newest first, one window at a time.

use herma_model::TenantId;
use herma_store::search::{Manner, Stage, Wanted};
use rusqlite::{Connection, Params};

use super::terms;
use crate::failure::{StoreResult, Translate};

/// The largest number of candidates that are ranked against each other.
const WINDOW: usize = 500;
const MOST: i64 = WINDOW as i64;
/// Candidates of one stage, newest first.
pub(super) struct Window {
    pub(super) keys: Vec<i64>,
    /// The key below the oldest row that was considered; zero at the end.
    pub(super) bottom: i64,
}

/// Finds candidates.
pub(super) struct Candidates<'a> {
    connection: &'a Connection,
    by_words: String,
    by_parts: String,
    /// All messages up to this key are indexed.
    through: i64,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(connection: &'a Connection, tenant: TenantId, wanted: &Wanted) -> StoreResult<Self> {
        // If there is only one tenant, do not filter by it: its term has an entry for every row, and reading them would
        // cost more than the rest.
        let tenant = among_others(connection, tenant)?.then_some(tenant.0);
        Ok(Self {
            connection,
            by_words: terms::expression(wanted, Manner::Words, tenant),
            by_parts: terms::expression(wanted, Manner::Parts, tenant),
            through: connection
                .prepare_cached("SELECT through FROM search_state")
                .and_then(|mut select| select.query_row([], |row| row.get(0)))
                .translated()?,
        })
    }

    /// The newest candidates of a stage whose keys are at most `top` and above `floor`.
    pub(super) fn window(&self, stage: Stage, top: i64, floor: i64) -> StoreResult<Window> {
        let mut keys = match stage {
            Stage::Titles => self.titles(top, floor)?,
            Stage::Words => self.messages(&self.by_words, top, floor)?,
            Stage::Parts => self.messages(&self.by_parts, top, floor)?,
        };
        keys.sort_unstable_by(|one, other| other.cmp(one));
        keys.dedup();
        let bottom = keys.get(WINDOW - 1).map_or(floor, |last| last - 1);
        keys.truncate(WINDOW);
        Ok(Window { keys, bottom })
    }

    fn titles(&self, top: i64, floor: i64) -> StoreResult<Vec<i64>> {
        let mut keys = self.read(
            "SELECT -rowid FROM search_index WHERE search_index MATCH ?1 AND rowid >= ?2 AND rowid < ?3 ORDER BY rowid
             LIMIT ?4",
            (&self.by_parts, -top, -floor, MOST),
        )?;
        keys.extend(self.read(
            "SELECT -key FROM search_again WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3",
            (-top, -floor, MOST),
        )?);
        Ok(keys)
    }

    fn messages(&self, expression: &str, top: i64, floor: i64) -> StoreResult<Vec<i64>> {
        let mut keys = self.indexed(expression, top, floor)?;
        keys.extend(self.read(
            "SELECT key FROM search_again WHERE key > ?1 AND key <= ?2 ORDER BY key DESC LIMIT ?3",
            (floor, top, MOST),
        )?);
        keys.extend(self.read(
            "SELECT pk FROM messages WHERE pk > ?1 AND pk <= ?2 ORDER BY pk DESC LIMIT ?3",
            (floor.max(self.through), top, MOST),
        )?);
        Ok(keys)
    }

    /// Candidates among the messages of one conversation whose keys are at most `top` and above `floor`.
    pub(super) fn of_conversation(
        &self,
        conversation: i64,
        manner: Manner,
        top: i64,
        floor: i64,
    ) -> StoreResult<Vec<i64>> {
        let expression = match manner {
            Manner::Words => &self.by_words,
            Manner::Parts => &self.by_parts,
        };
        let mut keys = self.indexed(&terms::within(expression, conversation), top, floor)?;
        keys.extend(self.read(
            "SELECT m.pk FROM search_again a CROSS JOIN messages m ON m.pk = a.key
             CROSS JOIN sessions s ON s.pk = m.session_pk
             WHERE a.key > ?1 AND a.key <= ?2 AND s.conversation_pk = ?3",
            (floor, top, conversation),
        )?);
        keys.extend(self.read(
            "SELECT m.pk FROM sessions s CROSS JOIN messages m ON m.session_pk = s.pk
             WHERE m.pk > ?1 AND m.pk <= ?2 AND s.conversation_pk = ?3",
            (floor.max(self.through), top, conversation),
        )?);
        Ok(keys)
    }

    fn indexed(&self, expression: &str, top: i64, floor: i64) -> StoreResult<Vec<i64>> {
        self.read(
            "SELECT rowid FROM search_index WHERE search_index MATCH ?1 AND rowid > ?2 AND rowid <= ?3
             ORDER BY rowid DESC LIMIT ?4",
            (expression, floor, top, MOST),
        )
    }

    fn read(&self, sql: &str, bounds: impl Params) -> StoreResult<Vec<i64>> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut select| select.query_map(bounds, |row| row.get(0))?.collect())
            .translated()
    }
}

/// Whether the store has other tenants.
fn among_others(connection: &Connection, tenant: TenantId) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT 1 FROM tenants WHERE pk <> ?1 LIMIT 1")
        .and_then(|mut select| select.exists([tenant.0]))
        .translated()
}

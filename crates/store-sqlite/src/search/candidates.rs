//! Rows that may be hits, newest first, one window at a time.

use herma_model::TenantId;
use herma_store::search::{Manner, Stage, Wanted};
use rusqlite::{Connection, Params};

use super::asked::{self, Asked};
use super::{common, terms};
use crate::failure::{StoreResult, Translate};

/// The largest number of candidates that are ranked against each other.
const WINDOW: usize = 500;
const MOST: i64 = WINDOW as i64;
/// The newest rows of a term from which the number of all its rows is estimated.
const SAMPLE: i64 = 64;

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
    /// Yields what `by_parts` yields, and more.
    by_rare_parts: String,
    /// The same for titles.
    in_titles: String,
    /// All messages up to this key are indexed.
    through: i64,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(connection: &'a Connection, tenant: TenantId, wanted: &Wanted) -> StoreResult<Self> {
        // If there is only one tenant, do not filter by it: its term has an entry for every row, and reading them would
        // cost more than the rest.
        let tenant = among_others(connection, tenant)?.then_some(tenant.0);
        let through = connection
            .prepare_cached("SELECT through FROM search_state")
            .and_then(|mut select| select.query_row([], |row| row.get(0)))
            .translated()?;
        let rows = |term: &str| estimated_rows(connection, term, through);
        let common = |part: &str, begin| common::with_part(connection, part, begin);
        let parts = Asked::of(wanted, Manner::Parts, common)?;
        let by_parts = parts.expression(tenant);
        let rare = parts.rare(rows)?;
        Ok(Self {
            connection,
            by_words: Asked::of(wanted, Manner::Words, common)?.expression(tenant),
            by_parts,
            by_rare_parts: rare.expression(tenant),
            in_titles: rare.in_titles().expression(tenant),
            through,
        })
    }

    /// The newest candidates of a stage whose keys are at most `top` and above `floor`.
    pub(super) fn window(&self, stage: Stage, top: i64, floor: i64) -> StoreResult<Window> {
        let mut keys = self.candidates(stage, top, floor, MOST)?;
        let bottom = keys.get(WINDOW - 1).map_or(floor, |last| last - 1);
        keys.truncate(WINDOW);
        Ok(Window { keys, bottom })
    }

    /// All candidates of a window that an earlier page has read. Which terms are common may have changed since then, so
    /// there may be more candidates now. A window with another bottom would repeat hits.
    pub(super) fn same_window(&self, stage: Stage, top: i64, bottom: i64) -> StoreResult<Window> {
        const ALL: i64 = -1;
        Ok(Window { keys: self.candidates(stage, top, bottom, ALL)?, bottom })
    }

    /// Candidates, newest first. At least the `most` newest ones are complete.
    fn candidates(&self, stage: Stage, top: i64, floor: i64, most: i64) -> StoreResult<Vec<i64>> {
        let mut keys = match stage {
            Stage::Titles => self.titles(top, floor, most)?,
            Stage::Words => self.messages(&self.by_words, top, floor, most)?,
            Stage::Parts => self.messages(&self.by_rare_parts, top, floor, most)?,
        };
        keys.sort_unstable_by(|one, other| other.cmp(one));
        keys.dedup();
        Ok(keys)
    }

    fn titles(&self, top: i64, floor: i64, most: i64) -> StoreResult<Vec<i64>> {
        let mut keys = self.read(
            "SELECT -rowid FROM search_index WHERE search_index MATCH ?1 AND rowid >= ?2 AND rowid < ?3 ORDER BY rowid
             LIMIT ?4",
            (&self.in_titles, -top, -floor, most),
        )?;
        keys.extend(self.read(
            "SELECT -key FROM search_again WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3",
            (-top, -floor, most),
        )?);
        Ok(keys)
    }

    fn messages(&self, expression: &str, top: i64, floor: i64, most: i64) -> StoreResult<Vec<i64>> {
        let mut keys = self.indexed(expression, top, floor, most)?;
        keys.extend(self.read(
            "SELECT key FROM search_again WHERE key > ?1 AND key <= ?2 ORDER BY key DESC LIMIT ?3",
            (floor, top, most),
        )?);
        keys.extend(self.read(
            "SELECT pk FROM messages WHERE pk > ?1 AND pk <= ?2 ORDER BY pk DESC LIMIT ?3",
            (floor.max(self.through), top, most),
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
        let mut keys = self.indexed(&asked::within(expression, conversation), top, floor, MOST)?;
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

    fn indexed(&self, expression: &str, top: i64, floor: i64, most: i64) -> StoreResult<Vec<i64>> {
        self.read(
            "SELECT rowid FROM search_index WHERE search_index MATCH ?1 AND rowid > ?2 AND rowid <= ?3
             ORDER BY rowid DESC LIMIT ?4",
            (expression, floor, top, most),
        )
    }

    fn read(&self, sql: &str, bounds: impl Params) -> StoreResult<Vec<i64>> {
        self.connection
            .prepare_cached(sql)
            .and_then(|mut select| select.query_map(bounds, |row| row.get(0))?.collect())
            .translated()
    }
}

/// About how many messages have this term, if its newest ones are as close to each other as all of them.
fn estimated_rows(connection: &Connection, term: &str, through: i64) -> StoreResult<i64> {
    let (found, oldest): (i64, Option<i64>) = connection
        .prepare_cached(
            "SELECT count(*), min(rowid) FROM (SELECT rowid FROM search_index
             WHERE search_index MATCH ?1 AND rowid > 0 ORDER BY rowid DESC LIMIT ?2)",
        )
        .and_then(|mut select| select.query_row((terms::quoted(term), SAMPLE), |row| Ok((row.get(0)?, row.get(1)?))))
        .translated()?;
    match oldest {
        Some(oldest) if found == SAMPLE => Ok(SAMPLE * through.max(oldest) / (through - oldest).max(1)),
        _ => Ok(found),
    }
}

/// Whether the store has other tenants.
fn among_others(connection: &Connection, tenant: TenantId) -> StoreResult<bool> {
    connection
        .prepare_cached("SELECT 1 FROM tenants WHERE pk <> ?1 LIMIT 1")
        .and_then(|mut select| select.exists([tenant.0]))
        .translated()
}

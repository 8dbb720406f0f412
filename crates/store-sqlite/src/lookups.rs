//! Conversations as this process left them, so that the next turn does not look them up again.
//!
//! Invariant: a state in here is what [`crate::snapshot::find`] would read. It is put in by the commit of a turn whose
//! admission was one row, and taken out by the next admission. In between nothing of this process changes the
//! conversation without [`Lookups::forget`]: writes of running turns are about conversations that are not in here, and
//! the writer forgets all before any other write. If another process has committed, nothing in here counts.

use std::collections::HashMap;

use herma_model::alias::Namespace;
use herma_model::{Alias, Resolution, TenantId, TurnName};
use rusqlite::Connection;

use crate::failure::{StoreResult, Translate};
use crate::rows::ConversationState;

/// The most conversations and names that are remembered. A larger number would only keep idle ones.
const MOST: usize = 1024;

/// A name as a request says it. Names of turns are not in here, nor the current conversation of a key, because they can
/// lead elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LookupName {
    tenant: TenantId,
    namespace: Namespace,
    alias: Alias,
}

impl LookupName {
    /// `None` if the name may be a turn's, or means whatever is current.
    pub(crate) fn of(tenant: TenantId, namespace: Namespace, alias: &Alias) -> Option<Self> {
        let is_fixed = namespace != Namespace::Current && TurnName::parse(alias.as_str()).is_none();
        is_fixed.then(|| Self { tenant, namespace, alias: alias.clone() })
    }
}

/// What is remembered.
#[derive(Default)]
pub(crate) struct Lookups {
    /// Conversations that have no turn.
    idle: HashMap<i64, ConversationState>,
    /// Where names lead: the conversation, and whether to its head.
    names: HashMap<LookupName, (i64, Resolution)>,
    /// SQLite's number for the commits of other connections, when it was last read.
    others: Option<i64>,
    /// Whether that was in the current transaction. No other connection can commit until it ends.
    is_checked: bool,
    /// The number of the turn that was admitted last, if it is the highest of all.
    last_turn: Option<i64>,
}

impl Lookups {
    /// Forgets everything if another process has committed. Called inside a transaction that writes, before anything
    /// here is used in it.
    pub(crate) fn check(&mut self, connection: &Connection) -> StoreResult<()> {
        if self.is_checked {
            return Ok(());
        }
        let others = connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut select| select.query_row([], |row| row.get(0)))
            .translated()?;
        if self.others.replace(others) != Some(others) {
            self.forget();
        }
        self.is_checked = true;
        Ok(())
    }

    /// Has the next transaction check again.
    pub(crate) fn end_transaction(&mut self) {
        self.is_checked = false;
    }

    /// Takes the conversation that a name leads to.
    pub(crate) fn take(&mut self, name: &LookupName) -> Option<(ConversationState, Resolution)> {
        let &(conversation, resolution) = self.names.get(name)?;
        self.idle.remove(&conversation).map(|state| (state, resolution))
    }

    /// The number of the next turn, if it is known.
    pub(crate) fn next_turn(&self) -> Option<i64> {
        self.last_turn.map(|last| last + 1)
    }

    /// Remembers the number that a turn got. It must be the highest of all.
    pub(crate) fn gave_turn(&mut self, turn: i64) {
        self.last_turn = Some(turn);
    }

    /// Forgets that number, because another turn gets the next one.
    pub(crate) fn forget_turn(&mut self) {
        self.last_turn = None;
    }

    /// Takes a conversation out that was found in another way.
    pub(crate) fn leave_out(&mut self, conversation: i64) {
        self.idle.remove(&conversation);
    }

    /// Remembers a conversation whose turn ends in this transaction.
    pub(crate) fn put(&mut self, name: LookupName, resolution: Resolution, state: ConversationState) {
        if self.idle.len() >= MOST || self.names.len() >= MOST {
            self.forget();
        }
        self.names.insert(name, (state.key, resolution));
        self.idle.insert(state.key, state);
    }

    /// Forgets everything.
    pub(crate) fn forget(&mut self) {
        self.idle.clear();
        self.names.clear();
        self.last_turn = None;
    }
}

//! Erases a conversation, a session key or a tenant, in steps of one transaction each.

use herma_model::{ConversationId, ErasureId, SessionKey, Timestamp, TurnId};
use herma_store::erasure::ERASED_TENANT;
use herma_store::{AskedBy, Erasure, Removed, Scope, TenantName};
use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::erase::leftovers::Trace;
use crate::erase::receipts;
use crate::erase::{self, Found, Manner};
use crate::failure::{StoreResult, Translate};
use crate::instance::Instance;
use crate::{memories, outbox};

/// The most conversations of a session key or a tenant that one transaction erases.
const STEP: usize = 64;

/// The session key that the last event of a conversation is stored with, if its key is erased. No pattern but `*`
/// matches it.
const ERASED_KEY: &str = "(erased)";

/// An erasure in progress.
pub(crate) struct Erasing {
    pub(crate) id: ErasureId,
    pub(crate) scope: Scope,
    pub(crate) what: Erasure,
    pub(crate) by: AskedBy,
    pub(crate) now: Timestamp,
    removed: Removed,
    pub(crate) trace: Trace,
    pub(crate) conversation: Option<ConversationId>,
}

/// How a step ended.
pub(crate) enum Step {
    /// There may be more.
    Again,
    /// Everything is erased.
    Done,
    /// This turn is in the way. Nothing of this step has changed.
    Busy(TurnId),
    /// There was nothing to erase.
    Nothing,
}

impl Erasing {
    pub(crate) fn new(scope: &Scope, what: Erasure, by: AskedBy, now: Timestamp) -> Self {
        let id = ErasureId::from_uuid(Uuid::new_v4());
        let (removed, trace) = (Removed::default(), Trace::default());
        Self { id, scope: scope.clone(), what, by, now, removed, trace, conversation: None }
    }

    /// Erases the next conversations, and writes the receipt.
    pub(crate) fn step(&mut self, connection: &Connection, instance: &Instance) -> StoreResult<Step> {
        let step = match self.what.clone() {
            Erasure::Conversation(alias, children, facts) => {
                match erase::find(connection, instance, &self.scope, &alias, children, self.now)? {
                    Found::Nothing => Step::Nothing,
                    Found::Busy(turn) => Step::Busy(turn),
                    Found::Conversations(id, all) => {
                        self.conversation = Some(id);
                        let how = Manner { facts, receipt: Some(self.id), ..Manner::default() };
                        self.erase_all(connection, &all, how)?;
                        Step::Done
                    }
                }
            }
            Erasure::SessionKey(key) => self.step_of_key(connection, instance, &key)?,
            Erasure::Tenant(name) => self.step_of_tenant(connection, instance, name)?,
        };
        if matches!(step, Step::Again | Step::Done) {
            let tenant = match self.what {
                Erasure::Conversation(..) | Erasure::SessionKey(_) => self.scope.tenant,
                Erasure::Tenant(_) => ERASED_TENANT,
            };
            receipts::write(connection, self.id, tenant, self.by, &self.removed, self.now)?;
        }
        Ok(step)
    }

    fn step_of_key(&mut self, connection: &Connection, instance: &Instance, key: &SessionKey) -> StoreResult<Step> {
        if !self.scope.keys.allows(key) {
            return Ok(Step::Nothing);
        }
        let all: Vec<(i64, bool)> = connection
            .prepare_cached(
                "SELECT pk, running_turn IS NOT NULL OR waiting > 0 FROM conversations INDEXED BY conversations_by_key
                 WHERE tenant_pk = ?1 AND session_key = ?2 AND session_key IS NOT NULL",
            )
            .and_then(|mut select| {
                let with = params![self.scope.tenant.0, key.as_str()];
                select.query_map(with, |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })
            .translated()?;
        let erased_key = SessionKey::parse(ERASED_KEY).ok();
        let how = Manner { as_key: erased_key.as_ref(), ..Manner::default() };
        let step = self.erase_next(connection, instance, &all, how)?;
        let is_known_elsewhere = match step {
            Step::Busy(_) => false,
            Step::Again | Step::Done | Step::Nothing => {
                outbox::erasures::key(connection, self.scope.tenant, key, self.id, self.now)?
            }
        };
        if !matches!(step, Step::Done | Step::Nothing) {
            return Ok(step);
        }
        self.trace.note_memories(connection, self.scope.tenant, key)?;
        self.removed.memories += memories::forget_key(connection, &self.scope, key)?;
        memories::versions::forget_unused(connection, self.scope.tenant, key)?;
        let is_nothing = self.removed == Removed::default() && !is_known_elsewhere;
        Ok(if is_nothing { Step::Nothing } else { Step::Done })
    }

    fn step_of_tenant(&mut self, connection: &Connection, instance: &Instance, name: TenantName) -> StoreResult<Step> {
        let all: Vec<(i64, bool)> = connection
            .prepare_cached(
                "SELECT pk, running_turn IS NOT NULL OR waiting > 0 FROM conversations
                 WHERE tenant_pk = ?1 AND deleted = 0",
            )
            .and_then(|mut select| {
                select.query_map([self.scope.tenant.0], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
            })
            .translated()?;
        let step = self.erase_next(connection, instance, &all, Manner::default())?;
        if matches!(step, Step::Busy(_)) {
            return Ok(step);
        }
        outbox::erasures::tenant(connection, self.scope.tenant, self.id, self.now)?;
        // Without its keys, no client can start a turn before the last step.
        self.removed.api_keys += self.delete(connection, "DELETE FROM api_keys WHERE tenant_pk = ?1")?;
        if matches!(step, Step::Again) {
            return Ok(step);
        }
        self.removed.memories += memories::forget_tenant(connection, self.scope.tenant)?;
        self.removed.events += self.delete(connection, "DELETE FROM events WHERE tenant_pk = ?1")?;
        for rest in [
            "DELETE FROM aliases WHERE tenant_pk = ?1",
            "DELETE FROM idempotency WHERE tenant_pk = ?1",
            "DELETE FROM imports WHERE tenant_pk = ?1",
            "DELETE FROM grants WHERE tenant_pk = ?1",
            "DELETE FROM memory_versions WHERE tenant_pk = ?1",
            "DELETE FROM erasures WHERE tenant_pk = ?1 AND scrubbed = 1
             AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.erasure = erasures.id)",
        ] {
            self.delete(connection, rest)?;
        }
        connection
            .execute(
                "UPDATE erasures SET tenant_pk = ?2, asked_by = NULL WHERE tenant_pk = ?1",
                [self.scope.tenant.0, ERASED_TENANT.0],
            )
            .translated()?;
        if name == TenantName::Forget {
            let nameless = format!("erased:{}", Uuid::new_v4().simple());
            connection
                .execute(
                    "UPDATE tenants SET name = ?2, erased = 1 WHERE pk = ?1",
                    params![self.scope.tenant.0, nameless],
                )
                .translated()?;
        }
        Ok(Step::Done)
    }

    fn delete(&self, connection: &Connection, statement: &str) -> StoreResult<u64> {
        connection.execute(statement, [self.scope.tenant.0]).map(|rows| rows as u64).translated()
    }

    /// Erases the first of these conversations, unless one of all is busy. Each comes with whether it may be busy.
    fn erase_next(
        &mut self,
        connection: &Connection,
        instance: &Instance,
        all: &[(i64, bool)],
        how: Manner<'_>,
    ) -> StoreResult<Step> {
        for (conversation, _) in all.iter().filter(|(_, may_be_busy)| *may_be_busy) {
            if let Some(turn) = erase::busy_turn(connection, instance, *conversation, self.now)? {
                return Ok(Step::Busy(turn));
            }
        }
        let next: Vec<i64> = all.iter().take(STEP).map(|(conversation, _)| *conversation).collect();
        self.erase_all(connection, &next, how)?;
        Ok(match (all.len() > STEP, self.removed.conversations) {
            (true, _) => Step::Again,
            (false, 0) => Step::Nothing,
            (false, _) => Step::Done,
        })
    }

    /// Erases conversations, the last first, so that nothing is kept for descendants that are erased too.
    fn erase_all(&mut self, connection: &Connection, conversations: &[i64], how: Manner<'_>) -> StoreResult<()> {
        memories::recalls::forget_conversations(connection, conversations)?;
        for conversation in conversations.iter().rev() {
            self.trace.note(connection, *conversation)?;
            erase::erase(connection, *conversation, how, &mut self.removed, self.now)?;
        }
        Ok(())
    }
}

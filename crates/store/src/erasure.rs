//! Erasures: what is to be erased, and the receipt that says what became of it.
//!
//! A receipt has numbers only. It never says what was erased.

use herma_model::{Alias, ApiKeyId, ConversationId, ErasureId, SessionKey, TenantId, TurnId};
use serde::{Deserialize, Serialize};

use crate::conversations::Children;

/// How many receipts of a tenant are kept. Older ones are forgotten once nothing of theirs is pending.
pub const KEPT_RECEIPTS: usize = 10_000;

/// The receipts of erased tenants belong to this tenant. No API key stands for it.
pub const ERASED_TENANT: TenantId = TenantId(0);

/// What is to be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Erasure {
    /// The conversation that a name leads to, alone or with its descendants, and the facts that come from it.
    Conversation(Alias, Children, Facts),
    /// Everything under a session key: its conversations and its memory.
    SessionKey(SessionKey),
    /// Everything of the tenant, its API keys included.
    Tenant(TenantName),
}

/// What becomes of the facts that come from an erased conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Facts {
    /// They are erased too.
    #[default]
    Erase,
    /// They stay, and no longer say where they come from.
    Keep,
}

/// Whether the name of an erased tenant stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantName {
    /// The tenant exists as if it were new.
    Keep,
    /// The name is free, and leads nowhere.
    Forget,
}

/// How many rows an erasure removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Removed {
    /// Conversations that no name leads to any more.
    pub conversations: u64,
    /// Their sessions.
    pub sessions: u64,
    /// Messages, summaries included.
    pub messages: u64,
    /// Turns, with their responses, journals and idempotency keys.
    pub turns: u64,
    /// Rows of the compaction ledger.
    pub compactions: u64,
    /// Names: session ids, slugs and chat ids.
    pub names: u64,
    /// Events, such as a change of the title.
    pub events: u64,
    /// Facts in long-term memory.
    pub memories: u64,
    /// API keys. Only the erasure of a tenant removes these.
    #[serde(skip_serializing_if = "is_zero")]
    pub api_keys: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What became of an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasureReceipt {
    /// Its id.
    pub id: ErasureId,
    /// The conversation that was erased by its name. It is not stored, so a receipt that is read later has none.
    pub conversation: Option<ConversationId>,
    /// How much was removed.
    pub removed: Removed,
    /// How much a second reading of the store still found, after the deletion was committed. Not zero means a defect.
    pub left: u64,
    /// How many messages stay because branches inherit them.
    pub kept: u64,
    /// How many places still have to lose the text: the search index, files of the data directory.
    pub pending: u64,
}

/// The outcome of an erasure. If it is not `Erased`, nothing or only a part was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EraseOutcome {
    /// It was erased.
    Erased(ErasureReceipt),
    /// This turn is running or waiting in a conversation that is to be erased.
    Busy(TurnId),
    /// There is nothing to erase for the caller.
    NotFound,
}

/// The caller that asks for an erasure, or for its receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedBy(pub Option<ApiKeyId>);

//! API keys: stored as digests, shown by their beginning.

use std::fmt;
use std::sync::Arc;

use herma_model::{ApiKeyId, KeyLimits, KeyScope, TenantId, Timestamp};

/// SHA-256 of a key. A fast digest is enough, because keys are long and random.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

/// A key to store.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    /// Its public id.
    pub id: ApiKeyId,
    /// The tenant it belongs to.
    pub tenant: TenantId,
    /// Digest of the secret.
    pub hash: KeyHash,
    /// The secret's first characters, for people.
    pub hint: String,
    /// Session keys it may use.
    pub session_keys: KeyScope,
    /// What it may not do.
    pub limits: KeyLimits,
    /// The clock.
    pub now: Timestamp,
}

/// A stored key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyRow {
    /// Its public id.
    pub id: ApiKeyId,
    /// The tenant it belongs to.
    pub tenant_name: Arc<str>,
    /// The secret's first characters.
    pub hint: String,
    /// Session keys it may use.
    pub session_keys: KeyScope,
    /// What it may not do.
    pub limits: KeyLimits,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

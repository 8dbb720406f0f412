//! Who a request speaks for.

use std::sync::Arc;

use crate::ids::{ApiKeyId, TenantId};
use crate::session_key::KeyScope;

/// A tenant, the key that proved it, and the session keys that key may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Everything this principal can reach belongs to this tenant.
    pub tenant: TenantId,
    /// The tenant's name, for people.
    pub tenant_name: Arc<str>,
    /// The API key; absent for the terminal, for `HERMA_API_KEY` and without authentication.
    pub key: Option<ApiKeyId>,
    /// Session keys it may use.
    pub session_keys: KeyScope,
}

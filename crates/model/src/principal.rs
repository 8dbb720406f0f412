//! On whose behalf a request is made.

use std::sync::Arc;

use crate::ids::{ApiKeyId, TenantId};
use crate::key_limits::KeyLimits;
use crate::session_key::KeyScope;

/// A tenant, the API key that authenticated it, and the session keys that it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Everything this principal can reach belongs to this tenant.
    pub tenant: TenantId,
    /// The tenant's name, for people.
    pub tenant_name: Arc<str>,
    /// The API key. Absent for the terminal, for `HERMA_API_KEY`, and if authentication is off.
    pub key: Option<ApiKeyId>,
    /// The session keys that it may use.
    pub session_keys: KeyScope,
    /// What its API key may not do.
    pub limits: KeyLimits,
}

impl Principal {
    /// The operator of a tenant: no API key, and no limits.
    pub const fn operator(tenant: TenantId, tenant_name: Arc<str>) -> Self {
        let limits = KeyLimits { read_only: false, expires_at: None, rate: None, max_turns: None };
        Self { tenant, tenant_name, key: None, session_keys: KeyScope::All, limits }
    }
}

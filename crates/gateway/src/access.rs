//! API keys: how they are made, which principal they stand for, and how much they may ask for.

mod rates;
mod turns;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use herma_model::{ApiKeyId, KeyLimits, KeyScope, Principal, TenantId};
use herma_store::{KeyHash, NewApiKey, Store, StoreError};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use self::rates::RequestRates;
pub(crate) use self::turns::{KeyTurn, KeyTurns};
use crate::error::GatewayError;
use crate::mint;

/// The tenant of keys that name no other.
pub const DEFAULT_TENANT: &str = "default";
/// How long a key is valid without asking the store again. A revoked key may still work this long.
const CACHED_FOR: Duration = Duration::from_millis(900);
/// Most keys in the cache. When it is full, it is cleared.
const MOST_CACHED: usize = 1024;

/// Whom a new key stands for, and what it may do.
#[derive(Debug, Clone)]
pub struct KeyGrant {
    /// The name of its tenant.
    pub tenant: String,
    /// The session keys that it may use.
    pub session_keys: KeyScope,
    /// What it may not do.
    pub limits: KeyLimits,
}

impl KeyGrant {
    /// A key without limits.
    pub fn of(tenant: impl Into<String>) -> Self {
        Self { tenant: tenant.into(), session_keys: KeyScope::All, limits: KeyLimits::default() }
    }

    /// The same, for these session keys.
    #[must_use]
    pub fn for_session_keys(self, session_keys: KeyScope) -> Self {
        Self { session_keys, ..self }
    }
}

/// A new key. The secret is shown once and never stored.
pub struct MintedKey {
    /// The secret.
    pub secret: String,
    /// Its public id.
    pub id: ApiKeyId,
}

impl MintedKey {
    /// Makes a key. It is valid after [`MintedKey::store`].
    pub fn mint() -> Self {
        let secret = format!("hk-{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        Self { secret, id: ApiKeyId::from_uuid(Uuid::now_v7()) }
    }

    /// Stores the key's digest. From now on the key is valid.
    pub async fn store(&self, store: &dyn Store, grant: KeyGrant) -> Result<(), StoreError> {
        let now = mint::now();
        let KeyGrant { tenant, session_keys, limits } = grant;
        let tenant = store.ensure_tenant(&tenant, now).await?;
        let hint = self.secret.chars().take(9).collect();
        let hash = hash(&self.secret);
        store.create_key(NewApiKey { id: self.id, tenant, hash, hint, session_keys, limits, now }).await
    }
}

/// Makes a key and stores its digest.
pub async fn create_key(store: &dyn Store, grant: KeyGrant) -> Result<MintedKey, StoreError> {
    let key = MintedKey::mint();
    key.store(store, grant).await?;
    Ok(key)
}

fn hash(secret: &str) -> KeyHash {
    KeyHash(Sha256::digest(secret.as_bytes()).into())
}

/// Says which principal a key stands for.
pub struct Access {
    store: Arc<dyn Store>,
    configured: Option<(KeyHash, Principal)>,
    cached: Mutex<HashMap<KeyHash, (Instant, Principal)>>,
    rates: RequestRates,
}

impl Access {
    /// `configured` is a key from the environment, which stands for the default tenant.
    pub async fn new(store: Arc<dyn Store>, configured: Option<&str>) -> Result<Self, StoreError> {
        let configured = match configured {
            Some(secret) => Some((hash(secret), default_principal(&*store).await?)),
            None => None,
        };
        Ok(Self { store, configured, cached: Mutex::default(), rates: RequestRates::default() })
    }

    /// Counts a request of a principal. Fails if its key asks too often.
    pub fn count_request(&self, principal: &Principal) -> Result<(), GatewayError> {
        if let (Some(key), Some(rate)) = (principal.key, principal.limits.rate)
            && let Err(wait) = self.rates.take(key, rate, Instant::now())
        {
            let message = format!("this API key may make {rate} requests, which is its limit");
            return Err(GatewayError::over_key_limit(message, wait));
        }
        Ok(())
    }

    /// The principal of a key; `None` if the key is not valid. Cancel-safe.
    pub async fn principal(&self, secret: &str) -> Result<Option<Principal>, StoreError> {
        let found = self.unrevoked(secret).await?;
        Ok(found.filter(|principal| !principal.limits.is_expired(mint::now())))
    }

    async fn unrevoked(&self, secret: &str) -> Result<Option<Principal>, StoreError> {
        let hash = hash(secret);
        if let Some((known, principal)) = &self.configured
            && bool::from(known.0.ct_eq(&hash.0))
        {
            return Ok(Some(principal.clone()));
        }
        if let Some(principal) = self.cached(hash) {
            return Ok(Some(principal));
        }
        let found = self.store.principal_of(hash).await?;
        if let Some(principal) = &found {
            let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
            if cached.len() >= MOST_CACHED {
                cached.clear();
            }
            cached.insert(hash, (Instant::now(), principal.clone()));
        }
        Ok(found)
    }

    fn cached(&self, hash: KeyHash) -> Option<Principal> {
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        cached.get(&hash).filter(|(since, _)| since.elapsed() < CACHED_FOR).map(|(_, principal)| principal.clone())
    }
}

/// The principal of the terminal, of `HERMA_API_KEY` and of a server without authentication.
pub async fn default_principal(store: &dyn Store) -> Result<Principal, StoreError> {
    let tenant: TenantId = store.ensure_tenant(DEFAULT_TENANT, mint::now()).await?;
    Ok(Principal::operator(tenant, Arc::from(DEFAULT_TENANT)))
}

//! API keys: making them, and whom they stand for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use herma_model::{ApiKeyId, KeyScope, Principal, TenantId};
use herma_store::{KeyHash, NewApiKey, Store, StoreError};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::mint;

/// The tenant of keys that name no other.
pub const DEFAULT_TENANT: &str = "default";
/// How long a key is believed without asking the store, and so how long a revoked one may still work.
const BELIEVED: Duration = Duration::from_secs(2);
/// Most keys remembered; more are simply asked for again.
const REMEMBERED: usize = 1024;

/// A key that was just made: the secret is shown once and never stored.
pub struct MintedKey {
    /// The secret.
    pub secret: String,
    /// Its public id.
    pub id: ApiKeyId,
}

impl MintedKey {
    /// Makes a key that opens nothing until it is stored.
    pub fn mint() -> Self {
        let secret = format!("hk-{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        Self { secret, id: ApiKeyId::from_uuid(Uuid::now_v7()) }
    }

    /// Stores the key's digest for a tenant; from here on it is valid.
    pub async fn store(&self, store: &dyn Store, tenant: &str, session_keys: KeyScope) -> Result<(), StoreError> {
        let now = mint::now();
        let tenant = store.ensure_tenant(tenant, now).await?;
        let hint = self.secret.chars().take(9).collect();
        store.create_key(NewApiKey { id: self.id, tenant, hash: hash(&self.secret), hint, session_keys, now }).await
    }
}

/// Makes a key for a tenant and stores its digest.
pub async fn create_key(store: &dyn Store, tenant: &str, session_keys: KeyScope) -> Result<MintedKey, StoreError> {
    let key = MintedKey::mint();
    key.store(store, tenant, session_keys).await?;
    Ok(key)
}

fn hash(secret: &str) -> KeyHash {
    KeyHash(Sha256::digest(secret.as_bytes()).into())
}

/// Says whom a key stands for.
pub struct Access {
    store: Arc<dyn Store>,
    configured: Option<(KeyHash, Principal)>,
    believed: Mutex<HashMap<KeyHash, (Instant, Principal)>>,
}

impl Access {
    /// `configured` is a key from the environment, which stands for the default tenant.
    pub async fn new(store: Arc<dyn Store>, configured: Option<&str>) -> Result<Self, StoreError> {
        let configured = match configured {
            Some(secret) => Some((hash(secret), default_principal(&*store).await?)),
            None => None,
        };
        Ok(Self { store, configured, believed: Mutex::default() })
    }

    /// The principal of a valid key. Cancel-safe.
    pub async fn principal(&self, secret: &str) -> Result<Option<Principal>, StoreError> {
        let hash = hash(secret);
        if let Some((known, principal)) = &self.configured
            && bool::from(known.0.ct_eq(&hash.0))
        {
            return Ok(Some(principal.clone()));
        }
        if let Some(principal) = self.believed(hash) {
            return Ok(Some(principal));
        }
        let found = self.store.principal_of(hash).await?;
        if let Some(principal) = &found {
            let mut believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner);
            if believed.len() >= REMEMBERED {
                believed.clear();
            }
            believed.insert(hash, (Instant::now(), principal.clone()));
        }
        Ok(found)
    }

    fn believed(&self, hash: KeyHash) -> Option<Principal> {
        let believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner);
        believed.get(&hash).filter(|(since, _)| since.elapsed() < BELIEVED).map(|(_, principal)| principal.clone())
    }
}

/// Who the terminal, `HERMA_API_KEY` and a server without authentication speak for.
pub async fn default_principal(store: &dyn Store) -> Result<Principal, StoreError> {
    let tenant: TenantId = store.ensure_tenant(DEFAULT_TENANT, mint::now()).await?;
    Ok(Principal { tenant, tenant_name: Arc::from(DEFAULT_TENANT), key: None, session_keys: KeyScope::All })
}

//! The provider that asks a Honcho server, by version 3 of its HTTP API.
//!
//! - [`names`]: what tenants, session keys and conversations are called there.
//! - [`recall`]: what is asked before a turn. [`record`] and [`erase`]: what the outbox tells the server.
//! - [`client`] speaks HTTP.
//!
//! Facts of the store are recalled beside it. They are never sent to the server.

mod client;
mod erase;
mod names;
mod recall;
mod record;

use std::sync::Arc;

use async_trait::async_trait;
use herma_model::{SessionKey, TenantId};
use herma_store::{Delivery, DeliveryTask, Store, StoreError};
use reqwest::Method;
use serde_json::json;
use tokio::sync::OnceCell;

pub use self::client::ApiKey;
use self::client::{HonchoClient, HonchoError, Request};
use self::names::Names;
use crate::builtin::Builtin;
use crate::outbox::{Delivered, DeliveryProblem, Recorder};
use crate::provider::{MemoryError, MemoryProvider, RecallRequest, Recollection};

/// The tenant that Hermes' workspace belongs to.
const DEFAULT_TENANT: &str = "default";

/// How a Honcho server is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HonchoSettings {
    /// Its address.
    pub base_url: String,
    /// The key that is sent to it.
    pub api_key: Option<ApiKey>,
    /// Whether sessions have the names that Hermes gave them.
    pub hermes_names: bool,
    /// Whether what was said in earlier conversations is recalled.
    pub passages: bool,
    /// Whether facts are recalled: those of the store, and what Honcho concluded.
    pub facts: bool,
}

impl HonchoSettings {
    /// Asks the server something small, with the key. The error says what is wrong.
    pub async fn check(&self) -> Result<(), String> {
        let workspace = if self.hermes_names { names::HERMES } else { "herma" };
        let path = ["workspaces", workspace, "sessions", "list"];
        let request = Request::post(&path, json!({})).with("size", "1");
        match HonchoClient::new(self).ask::<serde_json::Value>(request).await {
            Err(error @ HonchoError::Status { status: 401 | 403, .. }) => {
                Err(format!("{error}: it does not accept the key"))
            }
            Err(error) if !error.is_not_found() => Err(error.to_string()),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// The provider: what was said, by Honcho's search. Facts are recalled beside it.
pub struct Honcho {
    server: Arc<Server>,
    conclusions: Conclusions,
    /// Recalls the facts of the store.
    own_facts: Builtin,
}

/// What Honcho concluded about the person. This may need a model, and so be late when the search is not.
struct Conclusions(Arc<Server>);

/// The server, and what its names depend on.
struct Server {
    client: HonchoClient,
    store: Arc<dyn Store>,
    settings: HonchoSettings,
    store_name: OnceCell<Arc<str>>,
    default_tenant: OnceCell<TenantId>,
}

impl Honcho {
    /// A provider. Nothing is sent before it is needed.
    pub fn new(store: Arc<dyn Store>, settings: HonchoSettings) -> Self {
        let own_facts = Builtin::new(Arc::clone(&store), false, settings.facts);
        let client = HonchoClient::new(&settings);
        let (store_name, default_tenant) = (OnceCell::new(), OnceCell::new());
        let server = Arc::new(Server { client, store, settings, store_name, default_tenant });
        Self { conclusions: Conclusions(Arc::clone(&server)), server, own_facts }
    }
}

impl Server {
    async fn store_name(&self) -> Result<&str, StoreError> {
        self.store_name.get_or_try_init(|| self.store.store_name()).await.map(|name| &**name)
    }

    /// Whether a tenant has Hermes' workspace. The default tenant may be made later than others.
    async fn is_default(&self, tenant: TenantId) -> Result<bool, StoreError> {
        if let Some(default) = self.default_tenant.get() {
            return Ok(*default == tenant);
        }
        let Some(found) = self.store.find_tenant(DEFAULT_TENANT).await? else { return Ok(false) };
        // Another task may have been faster, with the same tenant.
        let _ = self.default_tenant.set(found);
        Ok(found == tenant)
    }

    async fn workspace(&self, tenant: TenantId) -> Result<String, StoreError> {
        Ok(if self.settings.hermes_names {
            names::hermes_workspace(tenant, self.is_default(tenant).await?)
        } else {
            names::own_workspace(self.store_name().await?, tenant)
        })
    }

    async fn names(&self, tenant: TenantId, key: &SessionKey) -> Result<Names, StoreError> {
        let of_hermes = match self.settings.hermes_names {
            true => Names::of_hermes(tenant, self.is_default(tenant).await?, key),
            false => None,
        };
        Ok(match of_hermes {
            Some(names) => names,
            None => Names::own(self.store_name().await?, tenant, key),
        })
    }
}

#[async_trait]
impl MemoryProvider for Honcho {
    fn name(&self) -> &'static str {
        "honcho"
    }

    fn beside(&self) -> Vec<&dyn MemoryProvider> {
        vec![&self.own_facts, &self.conclusions]
    }

    async fn recall(&self, request: &RecallRequest) -> Result<Vec<Recollection>, MemoryError> {
        if !self.server.settings.passages {
            return Ok(Vec::new());
        }
        let names = self.server.names(request.tenant, &request.session_key).await?;
        let erased = self.server.store.erased_not_delivered(request.tenant, &request.session_key).await?;
        Ok(recall::said(&self.server.client, &names, &erased, request).await?)
    }
}

#[async_trait]
impl MemoryProvider for Conclusions {
    fn name(&self) -> &'static str {
        "honcho's conclusions"
    }

    async fn recall(&self, request: &RecallRequest) -> Result<Vec<Recollection>, MemoryError> {
        let Self(server) = self;
        if !server.settings.facts {
            return Ok(Vec::new());
        }
        let names = server.names(request.tenant, &request.session_key).await?;
        let erased = server.store.erased_not_delivered(request.tenant, &request.session_key).await?;
        Ok(recall::concluded(&server.client, &names, &erased, request).await?)
    }
}

impl From<HonchoError> for MemoryError {
    fn from(error: HonchoError) -> Self {
        Self::Outside(error.to_string())
    }
}

#[async_trait]
impl Recorder for Honcho {
    async fn deliver(&self, delivery: &Delivery) -> Result<Delivered, DeliveryProblem> {
        let server = &*self.server;
        let client = &server.client;
        let names = match &delivery.session_key {
            Some(key) => server.names(delivery.tenant, key).await?,
            None => return erase::tenant(client, &server.workspace(delivery.tenant).await?).await,
        };
        match &delivery.task {
            DeliveryTask::Record(conversation, turns) => {
                record::record(client, &names, *conversation, turns, delivery.is_repeated).await
            }
            DeliveryTask::EraseConversation(conversation) => erase::conversation(client, &names, *conversation).await,
            DeliveryTask::EraseKey => erase::key(client, &names).await,
            DeliveryTask::EraseTenant => erase::tenant(client, &names.workspace).await,
        }
    }
}

impl From<HonchoError> for DeliveryProblem {
    fn from(error: HonchoError) -> Self {
        let message = error.to_string();
        if error.is_refusal() {
            Self::Refused(message)
        } else {
            Self::Down { message, retry_after: error.retry_after() }
        }
    }
}

/// Deletes something. What is not there is deleted already.
async fn delete(client: &HonchoClient, path: &[&str]) -> Result<(), HonchoError> {
    match client.tell(Request::new(Method::DELETE, path)).await {
        Err(error) if !error.is_not_found() => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

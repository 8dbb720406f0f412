//! The models that the model servers offer, cached for a short time.
//!
//! Listing never takes long and never fails: if a model server does not answer, its last list is used. All servers are
//! asked at the same time.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use herma_upstream::{ModelInfo, ModelServer};
use tokio::sync::Mutex;

use super::{ModelServers, PerServer, ServerId};
use crate::gateway::Gateway;

/// How long a list is used before the model server is asked again. This holds for an empty list too.
const FRESH_FOR: Duration = Duration::from_secs(10);
/// How long a model server may take to answer.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// The last list of each model server.
pub(crate) struct OfferedModels(PerServer<OfferedList>);

/// The last list of a model server, and when it was fetched.
#[derive(Default)]
struct OfferedList(Mutex<Option<(Instant, Vec<ModelInfo>)>>);

impl OfferedModels {
    /// No lists yet.
    pub(crate) fn of(servers: &ModelServers) -> Self {
        Self(servers.map(|_| OfferedList::default()))
    }

    /// The models of each server. Cancel-safe.
    pub(crate) async fn list(&self, servers: &ModelServers) -> Vec<(ServerId, Vec<ModelInfo>)> {
        let lists = self.0.iter().map(async |(id, list)| (id, list.get(&**servers.of(id)).await));
        join_all(lists).await
    }
}

impl Gateway {
    /// Every model that a request can name: the configured ones first, then those that the model servers offer, by
    /// names that lead to them. Cancel-safe.
    pub async fn offered_models(&self) -> Vec<ModelInfo> {
        let settings = &self.settings;
        let mut names: Vec<&str> = settings.models.names().collect();
        if !settings.default_model.is_empty() && !names.contains(&settings.default_model.as_str()) {
            names.insert(0, &settings.default_model);
        }
        let own = |id: &str| ModelInfo { id: id.to_owned(), created: 0, owned_by: "herma".to_owned() };
        let mut models: Vec<ModelInfo> = names.into_iter().map(own).collect();
        for (server, offered) in self.offered_lists.list(&self.servers).await {
            for info in offered {
                let Some(id) = settings.name_of_listed(server, &info.id) else { continue };
                let info = ModelInfo { id, ..info };
                match models.iter_mut().find(|model| model.id == info.id) {
                    Some(known) => *known = info,
                    None => models.push(info),
                }
            }
        }
        models
    }
}

impl OfferedList {
    /// The models. Requests that come at the same time ask the model server once. Cancel-safe.
    async fn get(&self, server: &dyn ModelServer) -> Vec<ModelInfo> {
        let mut cached = self.0.lock().await;
        if let Some((asked, models)) = &*cached
            && asked.elapsed() < FRESH_FOR
        {
            return models.clone();
        }
        let models = match tokio::time::timeout(LIST_TIMEOUT, server.models()).await {
            Ok(Ok(models)) => models,
            failed => {
                let why = match failed {
                    Ok(Err(failure)) => failure.for_log().into_owned(),
                    _ => format!("it did not answer within {LIST_TIMEOUT:?}"),
                };
                tracing::warn!(server = server.describe(), why, "the models of a model server could not be listed");
                cached.take().map(|(_, models)| models).unwrap_or_default()
            }
        };
        *cached = Some((Instant::now(), models.clone()));
        models
    }
}

//! The models that the model server offers, cached for a short time.
//!
//! Listing never takes long and never fails: if the model server does not answer, its last list is used.

use std::time::{Duration, Instant};

use herma_upstream::{ModelInfo, ModelServer};
use tokio::sync::Mutex;

/// How long a list is used before the model server is asked again. This holds for an empty list too.
const FRESH_FOR: Duration = Duration::from_secs(10);
/// How long the model server may take to answer.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// The last list, and when it was fetched.
#[derive(Default)]
pub(crate) struct OfferedModels(Mutex<Option<(Instant, Vec<ModelInfo>)>>);

impl OfferedModels {
    /// The models. Requests that come at the same time ask the model server once. Cancel-safe.
    pub(crate) async fn list(&self, server: &dyn ModelServer) -> Vec<ModelInfo> {
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
                    _ => format!("the model server did not answer within {LIST_TIMEOUT:?}"),
                };
                tracing::warn!(why, "the models of the model server could not be listed");
                cached.take().map(|(_, models)| models).unwrap_or_default()
            }
        };
        *cached = Some((Instant::now(), models.clone()));
        models
    }
}

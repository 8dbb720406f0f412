//! `GET /v1/models` and `/v1/models/{id}`.

use axum::extract::State;
use herma_upstream::ModelInfo;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::Shared;
use crate::error::ApiError;
use crate::json::Json;
use crate::path::Named;

/// A model in OpenAI's form.
#[derive(Serialize)]
pub(crate) struct Model {
    id: String,
    object: &'static str,
    created: i64,
    owned_by: String,
}

impl From<ModelInfo> for Model {
    fn from(info: ModelInfo) -> Self {
        Self { id: info.id, object: "model", created: info.created, owned_by: info.owned_by }
    }
}

/// Every model that a request can name.
async fn all(app: &Shared) -> Vec<Model> {
    app.gateway.offered_models().await.into_iter().map(Model::from).collect()
}

/// Every model that a request can name.
pub(crate) async fn list(State(app): State<Shared>) -> Json<Value> {
    Json(json!({ "object": "list", "data": all(&app).await }))
}

/// One model. Its name may contain slashes.
pub(crate) async fn show(State(app): State<Shared>, Named(id): Named) -> Result<Json<Model>, ApiError> {
    let found = all(&app).await.into_iter().find(|model| model.id == id);
    found.map(Json).ok_or_else(|| ApiError::not_found("there is no such model; GET /v1/models lists them"))
}

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

impl Model {
    fn own(id: &str) -> Self {
        Self { id: id.to_owned(), object: "model", created: 0, owned_by: "herma".to_owned() }
    }
}

impl From<ModelInfo> for Model {
    fn from(info: ModelInfo) -> Self {
        Self { id: info.id, object: "model", created: info.created, owned_by: info.owned_by }
    }
}

/// The configured models first, then those that the model servers offer, by names that lead to them.
async fn all(app: &Shared) -> Vec<Model> {
    let settings = app.gateway.settings();
    let mut names: Vec<&str> = settings.models.names().collect();
    if !settings.default_model.is_empty() && !names.contains(&settings.default_model.as_str()) {
        names.insert(0, &settings.default_model);
    }
    let mut models: Vec<Model> = names.into_iter().map(Model::own).collect();
    for (server, offered) in app.offered.list(app.gateway.servers()).await {
        for info in offered {
            let Some(id) = settings.name_of_listed(server, &info.id) else { continue };
            let info = ModelInfo { id, ..info };
            match models.iter_mut().find(|model| model.id == info.id) {
                Some(known) => *known = info.into(),
                None => models.push(info.into()),
            }
        }
    }
    models
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

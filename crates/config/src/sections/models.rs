//! `[models.NAME]`: names that clients may use for models, and what is known of each.

use std::collections::BTreeMap;

use crate::error::ConfigError;
use crate::page::Page;
use crate::reading::section::Section;
use crate::reading::setting::POSITIVE;

/// One model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelConfig {
    /// Its name at the model server.
    pub upstream_model: String,
    /// Its context window in tokens, where it differs from the upstream's.
    pub context_window: Option<u32>,
}

/// Models by the name that clients use. Others are passed on under the name they came with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelsConfig(BTreeMap<String, ModelConfig>);

impl ModelsConfig {
    /// What is known of the model of this name.
    pub fn get(&self, name: &str) -> Option<&ModelConfig> {
        self.0.get(name)
    }

    /// Every model, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ModelConfig)> {
        self.0.iter().map(|(name, model)| (name.as_str(), model))
    }

    /// The name at the model server; a model that is not listed keeps its own.
    pub fn upstream_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.get(name).map_or(name, |model| &model.upstream_model)
    }

    pub(crate) fn read(section: &mut Section) -> Result<Self, ConfigError> {
        let mut models = BTreeMap::new();
        for name in section.names() {
            if name.trim().is_empty() || name.chars().any(char::is_control) {
                return Err(ConfigError::Conflict(format!("a model in [models] is named {name:?}; give it a name")));
            }
            let model = section.within(&name, |section| {
                Ok(ModelConfig {
                    upstream_model: section.or("upstream_model", name.clone())?,
                    context_window: section.read_where("context_window", POSITIVE, |tokens| *tokens > 0)?,
                })
            })?;
            models.insert(name, model);
        }
        Ok(Self(models))
    }

    pub(crate) fn write(&self, page: &mut Page) {
        for (name, model) in &self.0 {
            page.heading(&["models", name], "A model by the name that clients use.");
            page.set("upstream_model", model.upstream_model.as_str(), "Its name at the model server.");
            page.maybe(
                "context_window",
                model.context_window,
                128_000,
                "Its context window in tokens, where it differs from the upstream's.",
            );
        }
    }
}

//! `[models.NAME]`: names that clients may use for models, and what is known of each.

use std::collections::BTreeMap;

use crate::error::ConfigError;
use crate::page::Page;
use crate::reading::path::quoted;
use crate::reading::section::Section;
use crate::reading::setting::POSITIVE;

/// The `allowed` text for prices.
const AMOUNT: &str = "a number of at least 0, such as 0.25";

/// One model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Its name at the model server.
    pub upstream_model: String,
    /// Its context window in tokens, where it differs from the upstream's.
    pub context_window: Option<u32>,
    /// Its price, `[models.NAME.price]`.
    pub price: Option<PriceConfig>,
}

/// What a model costs per million tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceConfig {
    /// Of tokens that it reads. Finite, not negative.
    pub input: f64,
    /// Of tokens that it writes. Finite, not negative.
    pub output: f64,
    /// The currency, for people.
    pub currency: Option<String>,
}

/// Models by the name that clients use. Others are passed on under the name they came with.
#[derive(Debug, Clone, PartialEq, Default)]
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
                    price: section.within("price", |section| PriceConfig::read(&name, section))?,
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
            if let Some(price) = &model.price {
                price.write(name, page);
            }
        }
    }
}

impl PriceConfig {
    /// Reads a price. `None` if the table is absent or empty.
    fn read(model: &str, section: &mut Section) -> Result<Option<Self>, ConfigError> {
        let amount = |amount: &f64| amount.is_finite() && *amount >= 0.0;
        let input = section.read_where("input", AMOUNT, amount)?;
        let output = section.read_where("output", AMOUNT, amount)?;
        let currency: Option<String> = section.read("currency")?;
        match (input, output) {
            (Some(input), Some(output)) => Ok(Some(Self { input, output, currency })),
            (None, None) if currency.is_none() => Ok(None),
            _ => Err(ConfigError::Conflict(format!(
                "[models.{}.price] needs both `input` and `output`, each for a million tokens",
                quoted(model)
            ))),
        }
    }

    fn write(&self, model: &str, page: &mut Page) {
        page.heading(&["models", model, "price"], "What it costs per million tokens.");
        page.set("input", self.input, "Of tokens that it reads.");
        page.set("output", self.output, "Of tokens that it writes.");
        page.maybe("currency", self.currency.as_deref(), "EUR", "The currency, for people.");
    }
}

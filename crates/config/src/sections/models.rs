//! `[models.NAME]`: names that clients may use for models, and what is known of each.

use std::collections::BTreeMap;
use std::time::Duration;

use super::headers::{self, Headers};
use crate::page::Page;
use crate::reading::path::quoted;
use crate::reading::section::Section;
use crate::reading::setting::POSITIVE;
use crate::values::base_url::BaseUrl;
use crate::values::secret::Secret;
use crate::values::span::{self, FORMS_ABOVE_ZERO};

/// The `allowed` text for `upstream_model`.
const UPSTREAM_MODEL: &str =
    "a name without `*`; if the model's own name ends in `*`, also that name, or `*` for what the `*` stands for";

/// What is said of a table of prices.
const PRICE: &str = "What it costs per million tokens.";

/// The `allowed` text for prices.
const AMOUNT: &str = "a number of at least 0, such as 0.25";

/// One model, or all models whose names begin alike.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Its name at the model server. Of a pattern such as `local/*`: [`ModelConfig::REST`] stands for what follows
    /// `local/`, and the pattern itself for the name as it is.
    pub upstream_model: String,
    /// Its model server, if not that of `[upstream]`.
    pub base_url: Option<BaseUrl>,
    /// The key sent to its model server.
    pub api_key: Option<Secret>,
    /// Headers sent with every request, in addition to those that it has from `[upstream]`.
    pub headers: Headers,
    /// The longest wait for the first byte, and between two pieces, where it differs from the upstream's.
    pub timeout: Option<Duration>,
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
    /// The currency, which people are shown.
    pub currency: Option<String>,
}

/// Models by the name that clients use. Others are passed on under the name they came with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelsConfig(BTreeMap<String, ModelConfig>);

impl ModelsConfig {
    /// Every model, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ModelConfig)> {
        self.0.iter().map(|(name, model)| (name.as_str(), model))
    }

    /// The currency that all prices have. `None` if one of them has none, or if they differ: then sums mean nothing.
    pub fn currency(&self) -> Option<&str> {
        let mut prices = self.0.values().filter_map(|model| model.price.as_ref());
        let currency = prices.next()?.currency.as_deref()?;
        prices.all(|price| price.currency.as_deref() == Some(currency)).then_some(currency)
    }

    pub(crate) fn read(section: &mut Section) -> Self {
        let mut models = BTreeMap::new();
        for name in section.names() {
            if name.trim().is_empty() || name.chars().any(char::is_control) {
                section.wrong_name(format!("a model in [models] is named {name:?}; give it a name"));
            }
            if name.strip_suffix(ModelConfig::REST).unwrap_or(&name).contains(ModelConfig::REST)
                || name == ModelConfig::REST
            {
                let problem = format!("a model in [models] is named {name:?}; a `*` may only end a name");
                section.wrong_name(problem);
            }
            let model = section.within(&name, |section| ModelConfig::read(&name, section));
            models.insert(name, model);
        }
        Self(models)
    }

    pub(crate) fn write(&self, page: &mut Page) {
        for (name, model) in &self.0 {
            model.write(name, page);
        }
        page.example(&["models", "NAME"], "A model by the name that clients use, which you choose.");
        ModelConfig::named("NAME").write_settings("NAME", page);
        page.example(&["models", "NAME", "price"], PRICE);
        PriceConfig { input: 0.25, output: 2.0, currency: None }.write_settings(page);
    }
}

impl ModelConfig {
    /// A model without settings of its own.
    fn named(name: &str) -> Self {
        Self {
            upstream_model: name.to_owned(),
            base_url: None,
            api_key: None,
            headers: Headers::new(),
            timeout: None,
            context_window: None,
            price: None,
        }
    }

    /// Ends the name of a pattern, and stands for the rest of a name that matches it.
    pub const REST: &str = "*";

    fn read(name: &str, section: &mut Section) -> Self {
        let is_known = |upstream: &String| {
            !upstream.contains(Self::REST) || upstream == name || (name.ends_with(Self::REST) && upstream == Self::REST)
        };
        let upstream_model = section.read_where("upstream_model", UPSTREAM_MODEL, is_known);
        Self {
            upstream_model: upstream_model.unwrap_or_else(|| name.to_owned()),
            base_url: section.read("base_url"),
            api_key: section.read("api_key"),
            headers: headers::read(section),
            timeout: section.read_where("timeout", FORMS_ABOVE_ZERO, |span: &Duration| !span.is_zero()),
            context_window: section.read_where("context_window", POSITIVE, |tokens| *tokens > 0),
            price: section.within("price", |section| PriceConfig::read(name, section)),
        }
    }

    fn write(&self, name: &str, page: &mut Page) {
        page.heading(&["models", name], "A model by the name that clients use.");
        self.write_settings(name, page);
        if let Some(price) = &self.price {
            page.heading(&["models", name, "price"], PRICE);
            price.write_settings(page);
        }
    }

    fn write_settings(&self, name: &str, page: &mut Page) {
        page.own("upstream_model", self.upstream_model.as_str(), name, "Its name at the model server.");
        page.base_url(
            self.base_url.as_ref(),
            "http://localhost:11434/v1",
            "Its model server, if not that of [upstream]. Another server gets no key and no headers of [upstream].",
        );
        page.secret("api_key", self.api_key.is_some(), "The key sent to its model server.");
        headers::write(&self.headers, page);
        page.maybe(
            "timeout",
            self.timeout.map(span::text),
            "300s".to_owned(),
            "The longest wait for a piece, where it differs from the upstream's.",
        );
        page.maybe(
            "context_window",
            self.context_window,
            128_000,
            "Its context window in tokens, where it differs from the upstream's.",
        );
    }
}

impl PriceConfig {
    /// Reads a price. `None` if the table is absent or empty.
    fn read(model: &str, section: &mut Section) -> Option<Self> {
        let amount = |amount: &f64| amount.is_finite() && *amount >= 0.0;
        let input = section.read_where("input", AMOUNT, amount);
        let output = section.read_where("output", AMOUNT, amount);
        let currency: Option<String> = section.read("currency");
        if let (Some(input), Some(output)) = (input, output) {
            return Some(Self { input, output, currency });
        }
        if input.is_some() || output.is_some() || currency.is_some() {
            section.conflict(format!(
                "[models.{}.price] needs both `input` and `output`, each for a million tokens",
                quoted(model)
            ));
        }
        None
    }

    fn write_settings(&self, page: &mut Page) {
        page.set("input", self.input, "Of tokens that it reads.");
        page.set("output", self.output, "Of tokens that it writes.");
        page.maybe("currency", self.currency.as_deref(), "EUR", "The currency, for people.");
    }
}

//! Models by the names that clients use: which model a name means, and at which server.

mod offered;
mod servers;

use std::collections::BTreeMap;

use herma_model::Price;

pub(crate) use offered::OfferedModels;
pub use servers::{ModelServers, PerServer, ServerId};

/// Ends a name that is a pattern.
const ANY: char = '*';

/// How a model is called at its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamName {
    /// By the name that the client used.
    AsAsked,
    /// By what follows the beginning of the pattern.
    Rest,
    /// By this name.
    Named(String),
}

/// What an operator can set about a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSettings {
    /// Its name at its server.
    pub upstream_model: UpstreamName,
    /// Its server.
    pub server: ServerId,
    /// How many tokens fit into it.
    pub context_window: Option<u32>,
    /// What it costs.
    pub price: Option<Price>,
}

/// A model that a request means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResolvedModel<'a> {
    /// The server's name for it. Empty if the request names no model and there is no default.
    pub name: &'a str,
    /// Its server.
    pub server: ServerId,
    /// How many tokens fit into it.
    pub window: Option<u32>,
    /// What it costs, if that is set for the name that the client used.
    pub price: Option<Price>,
}

impl ResolvedModel<'_> {
    /// True if both are the same model of the same server.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.server, self.name) == (other.server, other.name)
    }
}

/// The configured models. A name ends in `*` if it is a pattern: it stands for all names that begin like it.
#[derive(Debug, Clone, Default)]
pub struct Models {
    named: BTreeMap<String, ModelSettings>,
    /// The beginning of each pattern. The longest is first.
    patterns: Vec<(String, ModelSettings)>,
}

impl FromIterator<(String, ModelSettings)> for Models {
    fn from_iter<I: IntoIterator<Item = (String, ModelSettings)>>(models: I) -> Self {
        let mut made = Self::default();
        for (name, model) in models {
            match name.strip_suffix(ANY) {
                Some(beginning) => made.patterns.push((beginning.to_owned(), model)),
                None => drop(made.named.insert(name, model)),
            }
        }
        made.patterns.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
        made
    }
}

impl Models {
    /// The names that are no patterns, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    /// The model of this name. A whole name goes before patterns, and a longer pattern before a shorter one. `None` if
    /// the name is not configured.
    pub(crate) fn find<'a>(&'a self, asked: &'a str) -> Option<ResolvedModel<'a>> {
        let found = self.named.get(asked).map(|model| (model, ""));
        let (model, rest) = found.or_else(|| {
            self.patterns.iter().find_map(|(beginning, model)| Some((model, asked.strip_prefix(beginning.as_str())?)))
        })?;
        let name = match &model.upstream_model {
            UpstreamName::AsAsked => asked,
            UpstreamName::Rest => rest,
            UpstreamName::Named(name) => name,
        };
        Some(ResolvedModel { name, server: model.server, window: model.context_window, price: model.price })
    }

    /// The name that a pattern gives to a model of this server, for each pattern that gives one.
    pub(crate) fn pattern_names(&self, server: ServerId, name: &str) -> impl Iterator<Item = String> {
        let patterns = self
            .patterns
            .iter()
            .filter(move |(_, model)| model.server == server && model.upstream_model == UpstreamName::Rest);
        patterns.map(move |(beginning, _)| format!("{beginning}{name}"))
    }

    /// The price that is set for any name of a model.
    pub(crate) fn price_of(&self, model: &ResolvedModel<'_>) -> Option<Price> {
        let models = self.named.keys().filter_map(|name| self.find(name));
        models.filter(|found| found.is_same(model)).find_map(|found| found.price)
    }
}

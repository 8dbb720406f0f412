//! Notices about a valid configuration for the operator.

use crate::config::Config;
use crate::reading::path::quoted;
use crate::sections::memory::MemoryProvider;

/// Features that do not exist yet, by the prefix of their settings.
const NOT_YET: [(&str, &str); 1] = [("jobs.", "scheduled jobs are")];

/// One line for each setting that was given but has no effect.
pub(crate) fn notices(config: &Config, set: &[String]) -> Vec<String> {
    let mut notices: Vec<_> = set.iter().filter_map(|key| not_yet(key)).collect();
    if config.memory.provider != MemoryProvider::Honcho && config.memory.base_url.is_some() {
        notices.push(
            "`memory.base_url` is set, but `memory.provider` is not \"honcho\": no memory server is asked".to_owned(),
        );
    }
    if config.upstream.base_url.is_none() && config.upstream.api_key.is_some() {
        notices.push(
            "`upstream.api_key` is set without `upstream.base_url`, so the offline model answers; set the URL of the \
             model server with --upstream, HERMA_UPSTREAM or `upstream.base_url`"
                .to_owned(),
        );
    }
    let without_server = config.models.iter().filter(|(_, model)| config.server_of(model).is_none());
    for (name, model) in without_server {
        if model.api_key.is_some() || !model.headers.is_empty() {
            let name = quoted(name);
            notices.push(format!(
                "`models.{name}` has a key or headers but no `base_url`, and `upstream.base_url` is not set either, so \
                 the offline model answers; set `models.{name}.base_url`"
            ));
        }
    }
    notices
}

/// Whether the feature of a setting does not exist yet.
pub(crate) fn is_not_yet(key: &str) -> bool {
    NOT_YET.into_iter().any(|(prefix, _)| key.starts_with(prefix))
}

fn not_yet(key: &str) -> Option<String> {
    let (_, feature) = NOT_YET.into_iter().find(|(prefix, _)| key.starts_with(prefix))?;
    Some(format!("`{key}` is set, but {feature} not there yet: the setting has no effect"))
}

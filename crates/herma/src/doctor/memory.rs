//! Checks the outside memory provider: whether it answers and accepts the key.

use std::time::Duration;

use herma_config::Config;

use super::check::Check;
use crate::setup;

const MEMORY: &str = "memory";
/// How long the provider may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The check of a Honcho server. `None` if none is configured.
pub(super) async fn check(config: &Config) -> Option<Check> {
    let honcho = setup::honcho_settings(&config.memory)?;
    let server = format!("Honcho at {}", honcho.base_url);
    Some(match tokio::time::timeout(LIMIT, honcho.check()).await {
        Ok(Ok(())) => Check::ok(MEMORY, format!("{server} answers")),
        Ok(Err(reason)) => Check::problem(
            MEMORY,
            format!("{server} cannot be used: {reason}; check `memory.base_url` and `memory.api_key`"),
        ),
        Err(_) => Check::problem(
            MEMORY,
            format!("{server} did not answer within {LIMIT:?}; check that it runs and that the URL is right"),
        ),
    })
}

//! Sets up authentication, before the server takes its first request.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::bail;
use herma_config::{Config, Secret};
use herma_gateway::access::{self, Access};
use herma_http::Authentication;
use herma_store::Store;

use super::first_key;
use crate::setup;

/// Decides how requests are authenticated. `address` is the one that the server really listens on, after name
/// resolution.
pub(super) async fn set_up(
    config: &Config,
    store: &Arc<dyn Store>,
    address: SocketAddr,
) -> anyhow::Result<Authentication> {
    let is_loopback = address.ip().to_canonical().is_loopback();
    if config.server.no_auth {
        if !is_loopback {
            bail!("--no-auth works on loopback only, but {} is {address}; listen on 127.0.0.1", config.server.listen);
        }
        return Ok(Authentication::None(access::default_principal(&**store).await?));
    }
    let configured = config.api_key.as_ref().map(Secret::expose);
    if let Some(why) = configured.and_then(setup::weak_key) {
        bail!("{why}");
    }
    if configured.is_none() && store.keys().await?.iter().all(|key| key.revoked_at.is_some()) {
        if !is_loopback {
            bail!(
                "there is no API key, and {address} can be reached by others; make a key with `herma keys create \
                 --tenant default` (same --data and --store), set HERMA_API_KEY, or listen on 127.0.0.1"
            );
        }
        first_key::make(config, &**store, address).await?;
    }
    Ok(Authentication::Keys(Access::new(Arc::clone(store), configured).await?))
}

//! The HTTP client underneath: one pool of kept-alive connections.
//!
//! Reading the certificates of the machine takes tens of milliseconds, so a client for `https` is made on a
//! thread of its own while the process starts; one for `http` never reads them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::Client;
use rustls::crypto::{CryptoProvider, ring};

use super::settings::SettingsError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Shorter than what common servers and balancers keep an idle connection for.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

type Made = Result<Client, SettingsError>;

/// A client, or one that is being made.
#[derive(Debug, Clone)]
pub(super) struct Connection(Arc<OnceLock<Made>>);

impl Connection {
    /// Makes a client that never speaks TLS.
    pub(super) fn plain() -> Result<Self, SettingsError> {
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| SettingsError::Client(error.to_string()))?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let client = finish(builder().tls_backend_preconfigured(tls))?;
        Ok(Self(Arc::new(OnceLock::from(Ok(client)))))
    }

    /// Begins to make a client that trusts what the machine trusts.
    pub(super) fn secure() -> Self {
        let connection = Self(Arc::new(OnceLock::new()));
        let ahead = connection.clone();
        let thread = std::thread::Builder::new().name("herma-tls".to_owned());
        // Without the thread, the first call makes the client.
        drop(thread.spawn(move || drop(ahead.make())));
        connection
    }

    /// The client, waited for if it is still being made. Cancel-safe.
    pub(super) async fn client(&self) -> Made {
        if let Some(made) = self.0.get() {
            return made.clone();
        }
        let waiting = self.clone();
        tokio::task::spawn_blocking(move || waiting.make())
            .await
            .unwrap_or_else(|error| Err(SettingsError::Client(error.to_string())))
    }

    fn make(&self) -> Made {
        self.0
            .get_or_init(|| {
                if CryptoProvider::get_default().is_none() {
                    // Fails only when another thread was quicker, which serves as well.
                    drop(ring::default_provider().install_default());
                }
                finish(builder().tls_backend_rustls())
            })
            .clone()
    }
}

fn builder() -> reqwest::ClientBuilder {
    Client::builder()
        .user_agent(concat!("herma/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .no_proxy()
}

fn finish(builder: reqwest::ClientBuilder) -> Made {
    builder.build().map_err(|error| SettingsError::Client(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_secure_client_can_be_made_with_ring_alone() {
        assert!(Connection::secure().client().await.is_ok());
    }
}

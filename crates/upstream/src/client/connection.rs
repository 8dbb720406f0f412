//! The `reqwest` clients with their pools of kept-alive connections.
//!
//! Reading the certificates of the machine takes tens of milliseconds. So a client for `https` is built on its own
//! thread while the process starts. A client for `http` never reads them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::Client;
use rustls::crypto::{CryptoProvider, ring};

use super::settings::SettingsError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Common servers and load balancers keep an idle connection longer than this.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The HTTP clients of all model servers: one for `http`, one for `https`. Each has a pool of connections per server.
#[derive(Debug, Default)]
pub struct Connections {
    plain: OnceLock<Result<Connection, SettingsError>>,
    secure: OnceLock<Connection>,
}

impl Connections {
    /// The client for this scheme. The first server of a scheme makes it.
    pub(super) fn of_scheme(&self, scheme: &str) -> Result<Connection, SettingsError> {
        match scheme {
            "https" => Ok(self.secure.get_or_init(Connection::secure).clone()),
            _ => self.plain.get_or_init(Connection::plain).clone(),
        }
    }
}

type ClientResult = Result<Client, SettingsError>;

/// A client that is ready or still being built.
#[derive(Debug, Clone)]
pub(super) struct Connection(Arc<OnceLock<ClientResult>>);

impl Connection {
    /// Builds a client that never speaks TLS.
    pub(super) fn plain() -> Result<Self, SettingsError> {
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| SettingsError::Client(error.to_string()))?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let client = finish(builder().tls_backend_preconfigured(tls))?;
        Ok(Self(Arc::new(OnceLock::from(Ok(client)))))
    }

    /// Starts to build a client that trusts the certificates of the machine.
    pub(super) fn secure() -> Self {
        let connection = Self(Arc::new(OnceLock::new()));
        let background = connection.clone();
        let thread = std::thread::Builder::new().name("herma-tls".to_owned());
        // If no thread can be started, the first call builds the client.
        drop(thread.spawn(move || drop(background.build())));
        connection
    }

    /// The client. Waits while it is being built. Cancel-safe.
    pub(super) async fn client(&self) -> ClientResult {
        if let Some(made) = self.0.get() {
            return made.clone();
        }
        let waiting = self.clone();
        tokio::task::spawn_blocking(move || waiting.build())
            .await
            .unwrap_or_else(|error| Err(SettingsError::Client(error.to_string())))
    }

    fn build(&self) -> ClientResult {
        self.0
            .get_or_init(|| {
                if CryptoProvider::get_default().is_none() {
                    // Fails only if another thread has just installed a provider, which is fine.
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

fn finish(builder: reqwest::ClientBuilder) -> ClientResult {
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

//! The TLS settings of all model servers: which certificates are trusted.
//!
//! Reading the certificates of the machine takes tens of milliseconds. So it is done on its own thread while the
//! process starts, and only if a server is reached by `https`.

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::Verifier;

use super::settings::SettingsError;

type Loaded = Result<Arc<ClientConfig>, SettingsError>;

/// TLS settings that are ready or still being loaded.
#[derive(Debug, Clone, Default)]
pub(super) struct Certificates(Arc<OnceLock<Loaded>>);

impl Certificates {
    /// Starts to load the certificates that the machine trusts.
    pub(super) fn of_the_machine() -> Self {
        let certificates = Self::default();
        let background = certificates.clone();
        let thread = std::thread::Builder::new().name("herma-tls".to_owned());
        // If no thread can be started, the first call loads them.
        drop(thread.spawn(move || drop(background.load())));
        certificates
    }

    /// The TLS settings. Waits while they are being loaded. Cancel-safe.
    pub(super) async fn loaded(&self) -> Loaded {
        if let Some(loaded) = self.0.get() {
            return loaded.clone();
        }
        let waiting = self.clone();
        tokio::task::spawn_blocking(move || waiting.load())
            .await
            .unwrap_or_else(|error| Err(SettingsError::Client(error.to_string())))
    }

    fn load(&self) -> Loaded {
        self.0.get_or_init(|| settings().map_err(|error| SettingsError::Client(error.to_string()))).clone()
    }
}

fn settings() -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(Arc::clone(&provider))?;
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_certificates_of_the_machine_can_be_loaded_with_ring_alone() {
        assert!(Certificates::of_the_machine().loaded().await.is_ok());
    }
}

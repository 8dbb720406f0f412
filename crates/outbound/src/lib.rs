//! The HTTP client of servers beside the model servers: MCP servers and Honcho.
//!
//! All of them are addresses that the operator has configured. So every client is the same in this: it uses no proxy,
//! repeats nothing by itself, names no page that it came from, and trusts the certificates of the machine. It knows
//! nothing of what is sent.

use std::error::Error;
use std::io;
use std::sync::Arc;

use reqwest::{Client, ClientBuilder};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, RootCertStore};

/// Makes the client of one server. `configure` adds what differs between servers: timeouts, redirects, headers.
///
/// Reading the certificates of the machine takes a while, so it is done on a blocking thread, and for `https` only.
/// The error says neither the address nor a header.
pub async fn client(
    url: &str,
    configure: impl FnOnce(ClientBuilder) -> ClientBuilder + Send + 'static,
) -> Result<Client, String> {
    let is_secure = url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    let made = tokio::task::spawn_blocking(move || {
        let builder = with_tls(Client::builder(), is_secure)?
            .user_agent(concat!("herma/", env!("CARGO_PKG_VERSION")))
            .retry(reqwest::retry::never())
            .referer(false)
            .tcp_nodelay(true)
            .no_proxy();
        configure(builder).build().map_err(|error| error.without_url().to_string())
    });
    made.await.map_err(|error| error.to_string()).flatten()
}

fn with_tls(builder: ClientBuilder, is_secure: bool) -> Result<ClientBuilder, String> {
    if is_secure {
        if CryptoProvider::get_default().is_none() {
            // Fails only when another thread was quicker, which serves as well.
            drop(ring::default_provider().install_default());
        }
        return Ok(builder.tls_backend_rustls());
    }
    let without_certificates = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    Ok(builder.tls_backend_preconfigured(without_certificates))
}

/// Whether a request failed because the server's certificate was refused.
pub fn is_untrusted(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| (*error).source()).any(|error| match error.downcast_ref::<io::Error>() {
        // An error of the machine does not show what it wraps as its source.
        Some(error) => error.get_ref().is_some_and(|inner| is_untrusted(inner)),
        None => matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))),
    })
}

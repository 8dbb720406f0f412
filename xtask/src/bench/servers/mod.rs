//! The servers that are compared with Herma. Each runs as a child process of the benchmark.

pub(super) mod floor;
mod journal;
pub(super) mod proxy;
pub(super) mod upstream;

use std::io;
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;

/// Serves a router on a free loopback port, with as many threads as Herma uses.
fn serve(router: impl FnOnce() -> io::Result<Router>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        eprintln!("listening on http://{}", listener.local_addr()?);
        let listener = axum::serve::ListenerExt::tap_io(listener, |socket| {
            let _best_effort = socket.set_nodelay(true);
        });
        axum::serve(listener, router()?).await
    })
}

/// A client of the upstream that keeps its connections open. It trusts no certificate, because it never uses TLS.
fn client() -> io::Result<reqwest::Client> {
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).tls_backend_preconfigured(tls);
    client.build().map_err(io::Error::other)
}

fn chat_url(upstream: &str) -> String {
    format!("{upstream}/chat/completions")
}

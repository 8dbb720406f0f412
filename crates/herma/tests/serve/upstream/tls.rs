//! A model server behind TLS. Its certificate was made by an authority that no machine knows.

use std::sync::Arc;

use herma_testkit::{Herma, Launch, ScriptedUpstream};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::check;
use crate::support::{CHAT, chat, error, streamed, user};

/// The authority that made the certificate.
pub(crate) const AUTHORITY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/serve/upstream/certificates/authority.pem");

/// The port of a TLS server in front of another server. Its certificate is for `127.0.0.1` and `localhost`.
pub(crate) async fn secured(base_url: &str, host: &str) -> u16 {
    let certificate = CertificateDer::from_pem_slice(include_bytes!("certificates/server.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("certificates/server.key")).expect("a key");
    let settings = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a key that fits");
    let acceptor = TlsAcceptor::from(Arc::new(settings));
    let listener = TcpListener::bind((host, 0)).await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let behind = base_url.trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                let mut client = acceptor.accept(socket).await.ok()?;
                let mut server = TcpStream::connect(behind).await.ok()?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await.ok()
            });
        }
    });
    port
}

async fn launch(base_url: &str, trusted: Option<&str>) -> Herma {
    let launch = Launch::serve(env!("CARGO_BIN_EXE_herma")).upstream(base_url).env("HERMA_UPSTREAM__RETRIES", "0");
    match trusted {
        Some(file) => launch.env("SSL_CERT_FILE", file).start().await,
        None => launch.start().await,
    }
}

#[tokio::test]
async fn a_certificate_of_a_trusted_authority_is_accepted_for_its_names_only() {
    let upstream = ScriptedUpstream::start().await;
    let port = secured(&upstream.base_url(), "127.0.0.1").await;
    for host in ["127.0.0.1", "localhost"] {
        let herma = launch(&format!("https://{host}:{port}/v1"), Some(AUTHORITY)).await;
        for number in 1..=3 {
            let text = format!("hello {number}");
            let answer = herma.client().post_json(CHAT, &chat(&[user(&text)])).await;
            assert_eq!(answer.content(), format!("reply to: {text}"));
        }
        let mut stream = herma.client().post_stream(CHAT, &streamed(chat(&[user("and streamed")]))).await;
        assert_eq!(stream.text().await, "reply to: and streamed");
    }
    let other = secured(&upstream.base_url(), "127.0.0.2").await;
    let herma = launch(&format!("https://127.0.0.2:{other}/v1"), Some(AUTHORITY)).await;
    let refused = herma.client().post_json(CHAT, &chat(&[user("hello")])).await;
    check(&error(&refused, 502), "upstream_error", "invalid peer certificate: certificate not valid for name");
}

#[tokio::test]
async fn an_unknown_certificate_is_refused_with_its_reason() {
    let upstream = ScriptedUpstream::start().await;
    let port = secured(&upstream.base_url(), "127.0.0.1").await;
    let herma = launch(&format!("https://127.0.0.1:{port}/v1"), None).await;
    for body in [chat(&[user("hello")]), streamed(chat(&[user("hello again")]))] {
        let refused = herma.client().post_json(CHAT, &body).await;
        let says = format!("the model server at 127.0.0.1:{port} cannot be reached: invalid peer certificate: Unknown");
        check(&error(&refused, 502), "upstream_error", &says);
    }
    assert!(upstream.requests().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn a_server_without_tls_is_no_https_server() {
    let upstream = ScriptedUpstream::start().await;
    let herma = launch(&upstream.base_url().replace("http://", "https://"), None).await;
    let refused = herma.client().post_json(CHAT, &chat(&[user("hello")])).await;
    check(&error(&refused, 502), "upstream_error", "cannot be reached: received corrupt message");
}

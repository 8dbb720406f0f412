//! Honcho over https: whose certificate is trusted, and what a turn does without a server that is not.

use herma_testkit::{FakeHoncho, HonchoRequest, Reply};

use crate::honcho::Memory;
use crate::support::TestGateway;
use crate::upstream::tls::{AUTHORITY, secured};

/// A gateway whose Honcho server is behind TLS at this host. It trusts the certificates in `trusted`, or those of the
/// machine.
async fn start(host: &str, trusted: Option<&str>) -> Memory {
    let honcho = FakeHoncho::start().await;
    let port = secured(&honcho.base_url(), host).await;
    let url = format!("https://{host}:{port}");
    let mut settings = vec![
        ("HERMA_MEMORY__PROVIDER", "honcho"),
        ("HERMA_MEMORY__BASE_URL", url.as_str()),
        ("HERMA_MEMORY__API_KEY", "honcho-secret-key"),
    ];
    settings.extend(trusted.map(|file| ("SSL_CERT_FILE", file)));
    let gateway = TestGateway::with_settings(&settings).await;
    gateway.upstream.otherwise(|_| Reply::text("I see."));
    Memory { gateway, honcho }
}

#[tokio::test]
async fn a_honcho_whose_authority_the_operator_trusts_is_told_and_asked() {
    let memory = start("127.0.0.1", Some(AUTHORITY)).await;
    memory.say("ann", "first", "My dog is called Bello.").await;
    memory.honcho.until_messages(2).await;
    let shown = memory.say("ann", "second", "What is my dog called?").await;
    assert!(shown.contains(", the user: My dog is called Bello.\n"), "{shown}");
    let has_key = |request: &HonchoRequest| request.authorization.as_deref() == Some("Bearer honcho-secret-key");
    assert!(memory.honcho.requests().iter().all(has_key));
}

#[tokio::test]
async fn a_honcho_whose_certificate_is_unknown_or_of_another_name_is_told_nothing() {
    for (host, trusted) in [("127.0.0.1", None), ("127.0.0.2", Some(AUTHORITY))] {
        let memory = start(host, trusted).await;
        let text = "My dog is called Bello.";
        assert_eq!(memory.say("ann", "first", text).await, text, "the turn goes on");
        let failed = |health: &serde_json::Value| health["memory"]["error"]["message"].is_string();
        let health = memory.until("/health/detailed", failed).await;
        let said = health["memory"]["error"]["message"].as_str().expect("text");
        assert!(said.contains("its certificate is not trusted") && said.contains("SSL_CERT_FILE"), "{said}");
        assert_eq!(memory.honcho.requests(), [], "neither the key nor a word was sent");
    }
}

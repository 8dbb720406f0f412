//! `GET /`, which needs no key.

use herma_testkit::Client;
use serde_json::json;

use crate::support::TestGateway;

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

#[tokio::test]
async fn a_browser_without_a_key_reads_what_this_is_and_how_to_go_on() {
    let gateway = TestGateway::start().await;
    let page = Client::new(gateway.herma.base_url()).header("accept", BROWSER).get("/").await;
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let text = page.text();
    let running = format!("Herma {} is running.", env!("CARGO_PKG_VERSION"));
    for part in [running.as_str(), "session gateway", "/openapi.json", "herma keys create", "docs/"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[tokio::test]
async fn the_page_loads_nothing_and_is_shown_in_no_frame() {
    let gateway = TestGateway::start().await;
    for accept in [BROWSER, "*/*"] {
        let answer = Client::new(gateway.herma.base_url()).header("accept", accept).get("/").await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("script-src"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("vary"), Some("accept"));
    }
}

#[tokio::test]
async fn a_program_gets_the_same_as_json() {
    let gateway = TestGateway::start().await;
    let answer = Client::new(gateway.herma.base_url()).get("/").await;
    let links = json!({ "api": "/v1", "openapi": "/openapi.json", "health": "/health" });
    let expected =
        json!({ "name": "herma", "version": env!("CARGO_PKG_VERSION"), "status": "running", "links": links });
    assert_eq!(answer.expect(200), expected);
}

//! Refused requests: a 4xx error with `param` where possible, and nothing stored.

mod access;
mod bodies;
mod fields;
mod headers;
mod routes;

use crate::support::TestGateway;

/// Checks that the model server got no request, and that no conversation exists, now and after a restart.
async fn nothing_is_left(mut gateway: TestGateway) {
    assert!(gateway.upstream.requests().is_empty());
    assert!(gateway.sessions().await.is_empty());
    gateway.restart().await;
    assert!(gateway.sessions().await.is_empty());
    gateway.say("s", "hello").await.expect(200);
}

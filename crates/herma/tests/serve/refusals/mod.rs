//! Refused requests: a 4xx error with `param` where possible, and nothing stored.

mod access;
mod bodies;
mod fields;
mod headers;
mod routes;

use crate::support::World;

/// Checks that the model server got no request, and that no conversation exists, now and after a restart.
async fn nothing_is_left(mut world: World) {
    assert!(world.upstream.requests().is_empty());
    assert!(world.sessions().await.is_empty());
    world.restart().await;
    assert!(world.sessions().await.is_empty());
    world.say("s", "hello").await.expect(200);
}

//! Requests that are refused: 4xx in the envelope, with `param` where one can be named, and nothing left behind.

mod access;
mod bodies;
mod fields;
mod headers;
mod routes;

use crate::support::World;

/// Nothing was asked of the model server, and no conversation is there, now or after a restart.
async fn nothing_is_left(mut world: World) {
    assert!(world.upstream.requests().is_empty());
    assert!(world.sessions().await.is_empty());
    world.restart().await;
    assert!(world.sessions().await.is_empty());
    world.say("s", "hello").await.expect(200);
}

//! The model server answers that the context is too long.

use herma_testkit::Reply;
use serde_json::json;

use super::{context, is_summary, long_world, shown_summary, summaries, tell_four, words};
use crate::support::{CHAT, World, chat, error, streamed, user};

/// Makes the model refuse contexts with more messages than this.
fn takes(world: &World, most: usize) {
    world.upstream.otherwise(move |request| match (is_summary(request), request.messages().len() > most) {
        (true, _) => Reply::text(super::SUMMARY),
        (false, true) => Reply::context_too_long(),
        (false, false) => Reply::text("noted"),
    });
}

#[tokio::test]
async fn too_long_a_context_leads_to_one_compaction_and_one_more_try() {
    for (streaming, window) in [(false, "100000"), (true, "100000")] {
        let world = long_world(&[("HERMA_CONTEXT_WINDOW", window)]).await;
        tell_four(&world, "trip").await;
        takes(&world, 6);
        let body = chat(&[user("and?")]);
        let body = if streaming { streamed(body) } else { body };
        let answer = world.in_session("trip").post_json(CHAT, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let session = world.client().get("/api/sessions/trip").await.expect(200);
        assert_ne!(session["id"], json!("trip"));
        assert_eq!(summaries(&world).len(), 1);
        assert_eq!(context(&world)[0], shown_summary());
        let ledger = world.client().get("/api/sessions/trip/compactions").await.expect(200)["data"].clone();
        assert_eq!(ledger[0]["trigger"], "context_length");
    }
}

#[tokio::test]
async fn a_model_server_that_never_takes_it_is_believed_after_one_more_try() {
    let world = World::start().await;
    takes(&world, 1_000);
    tell_four(&world, "trip").await;
    takes(&world, 0);
    let refused = error(&world.say("trip", "and?").await, 400);
    assert_eq!(refused["code"], "context_length_exceeded");
    let calls = world.upstream.requests().iter().filter(|request| !is_summary(request)).count();
    assert_eq!((calls, summaries(&world).len()), (4 + 2, 1));
    let said: Vec<_> = world.rows("trip").await.into_iter().filter(|row| row["kind"] != "summary").collect();
    assert_eq!(said.len(), 8, "the refused turn left nothing");
    takes(&world, 1_000);
    let answer = world.say("trip", &words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], false);
    assert_eq!(context(&world)[0], shown_summary());
}

#[tokio::test]
async fn with_compaction_off_it_is_passed_on() {
    let world = long_world(&[("HERMA_COMPACTION__MODE", "off")]).await;
    tell_four(&world, "trip").await;
    takes(&world, 2);
    assert_eq!(error(&world.say("trip", "and?").await, 400)["code"], "context_length_exceeded");
    assert!(summaries(&world).is_empty());
}

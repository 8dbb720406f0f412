//! The model server answers that the context is too long.

use herma_testkit::Reply;
use serde_json::json;

use super::{context, is_summary, send_four, small_window_gateway, summaries, summary_line, words};
use crate::support::{CHAT, TestGateway, chat, error, streamed, user};

/// Makes the model refuse contexts with more messages than this.
fn limit_messages(gateway: &TestGateway, most: usize) {
    gateway.upstream.otherwise(move |request| match (is_summary(request), request.messages().len() > most) {
        (true, _) => Reply::text(super::SUMMARY),
        (false, true) => Reply::context_too_long(),
        (false, false) => Reply::text("noted"),
    });
}

#[tokio::test]
async fn too_long_a_context_leads_to_one_compaction_and_one_more_try() {
    for (streaming, window) in [(false, "100000"), (true, "100000")] {
        let gateway = small_window_gateway(&[("HERMA_CONTEXT_WINDOW", window)]).await;
        send_four(&gateway, "trip").await;
        limit_messages(&gateway, 6);
        let body = chat(&[user("and?")]);
        let body = if streaming { streamed(body) } else { body };
        let answer = gateway.in_session("trip").post_json(CHAT, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let session = gateway.client().get("/api/sessions/trip").await.expect(200);
        assert_ne!(session["id"], json!("trip"));
        assert_eq!(summaries(&gateway).len(), 1);
        assert_eq!(context(&gateway)[0], summary_line());
        let ledger = gateway.client().get("/api/sessions/trip/compactions").await.expect(200)["data"].clone();
        assert_eq!(ledger[0]["trigger"], "context_length");
    }
}

#[tokio::test]
async fn a_model_server_that_never_takes_it_is_believed_after_one_more_try() {
    let gateway = TestGateway::start().await;
    limit_messages(&gateway, 1_000);
    send_four(&gateway, "trip").await;
    limit_messages(&gateway, 0);
    let refused = error(&gateway.say("trip", "and?").await, 400);
    assert_eq!(refused["code"], "context_length_exceeded");
    let calls = gateway.upstream.requests().iter().filter(|request| !is_summary(request)).count();
    assert_eq!((calls, summaries(&gateway).len()), (4 + 2, 1));
    let said: Vec<_> = gateway.rows("trip").await.into_iter().filter(|row| row["kind"] != "summary").collect();
    assert_eq!(said.len(), 8, "the refused turn left nothing");
    limit_messages(&gateway, 1_000);
    let answer = gateway.say("trip", &words(5)).await.expect(200);
    assert_eq!(answer["session"]["rotated"], false);
    assert_eq!(context(&gateway)[0], summary_line());
}

#[tokio::test]
async fn with_compaction_off_it_is_passed_on() {
    let gateway = small_window_gateway(&[("HERMA_COMPACTION__MODE", "off")]).await;
    send_four(&gateway, "trip").await;
    limit_messages(&gateway, 2);
    assert_eq!(error(&gateway.say("trip", "and?").await, 400)["code"], "context_length_exceeded");
    assert!(summaries(&gateway).is_empty());
}

//! The history cache of a process is never used if another process has written since.

use herma_testkit::{Reply, ToolCall};
use serde_json::{Value, json};

use crate::support::{CHAT, Cluster, ask, ask_streamed, named};

#[tokio::test]
async fn two_processes_that_take_turns_see_each_others_messages() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    for number in 0..6 {
        let client = if number % 2 == 0 { cluster.session("s") } else { named(other.client(), "s") };
        client.post_json(CHAT, &ask(&number.to_string())).await.expect(200);
        let context = cluster.upstream.last_request().transcript();
        let mut expected: Vec<String> =
            (0..number).flat_map(|n| [format!("user: {n}"), format!("assistant: reply to: {n}")]).collect();
        expected.push(format!("user: {number}"));
        assert_eq!(context, expected);
    }
}

#[tokio::test]
async fn what_failed_in_the_other_process_is_known_here() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    cluster.upstream.push(Reply::cut_off_after(1));
    named(other.client(), "s").post_stream(CHAT, &ask_streamed("two")).await.rest().await;
    cluster.session("s").post_json(CHAT, &ask("three")).await.expect(200);
    assert_eq!(
        cluster.upstream.last_request().transcript()[2..],
        ["user: two", "assistant: chunk1 \n\n[The reply ends here: the model server failed.]", "user: three"]
    );
    named(other.client(), "s").post_json(CHAT, &ask("four")).await.expect(200);
    assert_eq!(cluster.upstream.last_request().messages().len(), 7);
}

#[tokio::test]
async fn a_newer_system_message_of_the_other_process_holds_here() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let with_system = |system: &str, text: &str| {
        let system = json!({"role": "system", "content": system});
        json!({"messages": [system, {"role": "user", "content": text}]})
    };
    cluster.session("s").post_json(CHAT, &with_system("be brief", "one")).await.expect(200);
    named(other.client(), "s").post_json(CHAT, &with_system("be long", "two")).await.expect(200);
    cluster.session("s").post_json(CHAT, &ask("three")).await.expect(200);
    let context = cluster.upstream.last_request().transcript();
    assert_eq!((context[0].as_str(), context.len()), ("system: be long", 6));
}

#[tokio::test]
async fn a_name_used_by_both_leads_to_one_history_whatever_name_was_used_before() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    let first = cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    let handle = first["session"]["conversation_id"].as_str().unwrap();
    let by_handle = |herma: &herma_testkit::Herma| herma.client().header("x-hermes-conversation-id", handle);
    by_handle(&other).post_json(CHAT, &ask("two")).await.expect(200);
    by_handle(&cluster.herma).post_json(CHAT, &ask("three")).await.expect(200);
    cluster.session("s").post_json(CHAT, &ask("four")).await.expect(200);
    assert_eq!(cluster.upstream.last_request().messages().len(), 7);
}

/// The result of a call of `find`.
fn found(call: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "tool", "tool_call_id": call, "content": "found"}]})
}

/// The cached history may be older than the tool call that the result belongs to.
#[tokio::test]
async fn a_tool_result_is_taken_by_a_process_that_remembers_less() {
    let cluster = Cluster::start().await;
    let other = cluster.another().await;
    named(other.client(), "s").post_json(CHAT, &ask("one")).await.expect(200);
    cluster.upstream.push(Reply::tool_calls([ToolCall::new("a", "find", "{}")]));
    cluster.session("s").post_json(CHAT, &ask("two")).await.expect(200);
    named(other.client(), "s").post_json(CHAT, &found("a")).await.expect(200);
    named(other.client(), "s").post_json(CHAT, &found("b")).await.expect(400);
    assert_eq!(cluster.upstream.last_request().messages().len(), 5);
}

#[tokio::test]
async fn a_tool_result_that_was_lost_with_its_process_can_be_sent_again() {
    let mut cluster = Cluster::start().await;
    cluster.upstream.push(Reply::tool_calls([ToolCall::new("a", "find", "{}")]));
    cluster.session("s").post_json(CHAT, &ask("one")).await.expect(200);
    let (_gate, lost) = cluster.hold(cluster.session("s"), found("a")).await;
    cluster.stored().until_turns("running", 1).await;
    lost.abort();
    cluster.restart().await;
    cluster.session("s").post_json(CHAT, &found("a")).await.expect(200);
    assert_eq!(cluster.upstream.last_request().messages().len(), 3);
    assert_eq!((cluster.stored().all_turns(), cluster.stored().attempts()), (2, 3));
    cluster.stored().until_settled().await;
}

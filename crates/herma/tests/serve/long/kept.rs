//! Messages that a compaction keeps word for word.

use herma_testkit::{Completion, Reply, ToolCall};
use serde_json::json;

use super::{
    context, counted, is_summary, many_words, send_four, small_window_gateway, summaries, summary_line, text, words,
};
use crate::support::{CHAT, SESSION_KEY, chat, lines, result, system, user, with};

#[tokio::test]
async fn the_newest_messages_are_kept_by_budget_from_an_answer_on() {
    let gateway = small_window_gateway(&[("HERMA_COMPACTION__KEEP_RECENT", "0.5")]).await;
    send_four(&gateway, "trip").await;
    gateway.say("trip", &many_words(5)).await.expect(200);
    let four = format!("user: {}", words(4));
    let five = format!("user: {}", many_words(5));
    let noted = "assistant: noted".to_owned();
    assert_eq!(context(&gateway), [summary_line(), noted.clone(), four, noted, five]);
    let [asked] = &summaries(&gateway)[..] else { panic!("one summary") };
    let quoted = asked.last_user_text();
    assert!(quoted.contains("part 1 of the story") && quoted.contains("part 3 of") && !quoted.contains("part 4 of"));
}

#[tokio::test]
async fn system_messages_and_the_session_key_outlive_the_session() {
    let mut gateway = small_window_gateway(&[]).await;
    let first = chat(&[system("Be brief."), user(&words(0))]);
    gateway.in_session("trip").header(SESSION_KEY, "agent:ada").post_json(CHAT, &first).await.expect(200);
    send_four(&gateway, "trip").await;
    let answer = gateway.say("trip", &many_words(5)).await;
    assert_eq!(answer.expect(200)["session"]["rotated"], true);
    assert_eq!(answer.header(SESSION_KEY), Some("agent:ada"));
    assert_eq!(context(&gateway)[..2], ["system: Be brief.".to_owned(), summary_line()]);
    gateway.restart().await;
    let answer = gateway.say("trip", "and?").await;
    assert_eq!((answer.status, answer.header(SESSION_KEY)), (200, Some("agent:ada")));
    assert_eq!(context(&gateway)[0], "system: Be brief.");
    let asked = summaries(&gateway);
    assert!(!asked.is_empty() && asked.iter().all(|asked| !asked.last_user_text().contains("agent:ada")));
}

#[tokio::test]
async fn a_tool_round_keeps_calls_results_and_the_question() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    let calls = vec![ToolCall::new("a", "find", "{}"), ToolCall::new("b", "find", "{}")];
    gateway.upstream.push(Completion { calls, ..Completion::default() }.usage(2_000, 20).into());
    let tools = json!([{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]);
    let ask = with(chat(&[user("Where is it?")]), "tools", tools.clone());
    gateway.in_session("trip").post_json(CHAT, &ask).await.expect(200);
    let results = with(chat(&[result("a", &many_words(1)), result("b", "nothing")]), "tools", tools);
    let answer = gateway.in_session("trip").post_json(CHAT, &results).await.expect(200);
    assert_eq!(answer["session"]["rotated"], true);
    let expected = [
        summary_line(),
        "user: Where is it?".to_owned(),
        "assistant a=find({}) b=find({})".to_owned(),
        format!("tool a: {}", many_words(1)),
        "tool b: nothing".to_owned(),
    ];
    assert_eq!(context(&gateway), expected);
}

#[tokio::test]
async fn pinned_messages_are_carried_through_every_compaction() {
    let gateway = small_window_gateway(&[]).await;
    gateway.say("trip", "My passport is X123.").await.expect(200);
    let id = text(&gateway.rows("trip").await[0]["id"]);
    let path = format!("/api/sessions/trip/messages/{id}/pin");
    gateway.client().send_json("PUT", &path, &json!({})).await.expect(200);
    for number in 1..=12 {
        gateway.say("trip", &many_words(number)).await.expect(200);
    }
    assert!(summaries(&gateway).len() >= 2);
    assert_eq!(context(&gateway)[..2], [summary_line(), "user: My passport is X123.".to_owned()]);
    gateway.client().delete(&path).await.expect(200);
    for number in 1..=6 {
        gateway.say("trip", &many_words(number)).await.expect(200);
    }
    assert!(!context(&gateway).iter().any(|line| line.contains("X123")), "{:?}", context(&gateway));
}

#[tokio::test]
async fn a_failed_turn_leaves_its_note_or_is_summarised_with_it() {
    let gateway = small_window_gateway(&[("HERMA_COMPACTION__KEEP_RECENT", "0.5")]).await;
    send_four(&gateway, "trip").await;
    gateway.upstream.push(Reply::status(400, "no"));
    gateway.say("trip", "broken").await.expect(502);
    gateway.say("trip", &many_words(6)).await.expect(200);
    let context = context(&gateway);
    assert_eq!(context[0], summary_line());
    let note = ["user: broken", crate::support::NO_REPLY];
    assert!(context.windows(2).any(|pair| pair == note), "{context:?}");
}

#[tokio::test]
async fn a_turn_that_fails_after_the_split_can_be_sent_again() {
    let gateway = small_window_gateway(&[]).await;
    send_four(&gateway, "trip").await;
    gateway.upstream.push(Reply::text(super::SUMMARY));
    gateway.upstream.push(Reply::status(400, "no"));
    gateway.say("trip", &many_words(5)).await.expect(502);
    let answer = gateway.say("trip", &many_words(5)).await.expect(200);
    assert_eq!((&answer["session"]["resolution"], &answer["session"]["rotated"]), (&json!("moved"), &json!(false)));
    let said = lines(&gateway.rows("trip").await);
    assert_eq!(said.iter().filter(|line| line.contains("chapter 5")).count(), 1, "{said:?}");
    assert_eq!(summaries(&gateway).len(), 1);
}

#[tokio::test]
async fn images_are_kept_or_named_and_never_counted_by_their_bytes() {
    let gateway = small_window_gateway(&[("HERMA_CONTEXT_WINDOW", "12000")]).await;
    let url = format!("data:image/png;base64,{}", "A".repeat(200_000));
    let image = json!({"role": "user", "content": [
        {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]});
    gateway.upstream.push(Reply::text("A cat."));
    gateway.in_session("trip").post_json(CHAT, &chat(&[image])).await.expect(200);
    gateway.upstream.otherwise(|request| {
        if is_summary(request) { Reply::text(super::SUMMARY) } else { counted(request, &many_words(9)) }
    });
    while summaries(&gateway).is_empty() {
        gateway.say("trip", &many_words(7)).await.expect(200);
    }
    let quoted = summaries(&gateway)[0].last_user_text();
    assert!(quoted.contains("What is this?\n[image]") && !quoted.contains("base64"), "{quoted:.300}");
}

#[tokio::test]
async fn with_compaction_off_a_conversation_ends_at_its_window() {
    let gateway = small_window_gateway(&[("HERMA_COMPACTION__MODE", "off")]).await;
    let mut refused = None;
    for number in 1..=12 {
        let answer = gateway.say("trip", &words(number)).await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let error = crate::support::error(&refused.expect("an end"), 400);
    assert_eq!(error["code"], "context_length_exceeded");
    assert!(summaries(&gateway).is_empty());
}

#[tokio::test]
async fn a_large_system_prompt_does_not_stop_a_conversation() {
    let gateway = small_window_gateway(&[]).await;
    // The system prompt takes about 3,450 of 4,000 tokens. So less than keep_recent (800) is left for the
    // conversation.
    let system = json!({ "role": "system", "content": "rule. ".repeat(2_300) });
    for number in 0..12 {
        let said = json!({ "role": "user", "content": format!("question {number} {}", "x y ".repeat(60)) });
        let body = json!({ "messages": [system, said] });
        gateway.in_session("trip").post_json(CHAT, &body).await.expect(200);
    }
    assert!(!summaries(&gateway).is_empty());
}

//! Messages that a compaction keeps word for word.

use herma_testkit::{Completion, Reply, ToolCall};
use serde_json::json;

use super::{context, counted, is_summary, long_world, many_words, shown_summary, summaries, tell_four, text, words};
use crate::support::{CHAT, SESSION_KEY, chat, lines, result, system, user, with};

#[tokio::test]
async fn the_newest_messages_are_kept_by_budget_from_an_answer_on() {
    let world = long_world(&[("HERMA_COMPACTION__KEEP_RECENT", "0.5")]).await;
    tell_four(&world, "trip").await;
    world.say("trip", &many_words(5)).await.expect(200);
    let four = format!("user: {}", words(4));
    let five = format!("user: {}", many_words(5));
    let noted = "assistant: noted".to_owned();
    assert_eq!(context(&world), [shown_summary(), noted.clone(), four, noted, five]);
    let [asked] = &summaries(&world)[..] else { panic!("one summary") };
    let quoted = asked.last_user_text();
    assert!(quoted.contains("part 1 of the story") && quoted.contains("part 3 of") && !quoted.contains("part 4 of"));
}

#[tokio::test]
async fn system_messages_and_the_session_key_outlive_the_session() {
    let mut world = long_world(&[]).await;
    let first = chat(&[system("Be brief."), user(&words(0))]);
    world.in_session("trip").header(SESSION_KEY, "agent:ada").post_json(CHAT, &first).await.expect(200);
    tell_four(&world, "trip").await;
    let answer = world.say("trip", &many_words(5)).await;
    assert_eq!(answer.expect(200)["session"]["rotated"], true);
    assert_eq!(answer.header(SESSION_KEY), Some("agent:ada"));
    assert_eq!(context(&world)[..2], ["system: Be brief.".to_owned(), shown_summary()]);
    world.restart().await;
    let answer = world.say("trip", "and?").await;
    assert_eq!((answer.status, answer.header(SESSION_KEY)), (200, Some("agent:ada")));
    assert_eq!(context(&world)[0], "system: Be brief.");
    let asked = summaries(&world);
    assert!(!asked.is_empty() && asked.iter().all(|asked| !asked.last_user_text().contains("agent:ada")));
}

#[tokio::test]
async fn a_tool_round_keeps_calls_results_and_the_question() {
    let world = long_world(&[]).await;
    tell_four(&world, "trip").await;
    let calls = vec![ToolCall::new("a", "find", "{}"), ToolCall::new("b", "find", "{}")];
    world.upstream.push(Completion { calls, ..Completion::default() }.usage(2_000, 20).into());
    let tools = json!([{"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}]);
    let ask = with(chat(&[user("Where is it?")]), "tools", tools.clone());
    world.in_session("trip").post_json(CHAT, &ask).await.expect(200);
    let results = with(chat(&[result("a", &many_words(1)), result("b", "nothing")]), "tools", tools);
    let answer = world.in_session("trip").post_json(CHAT, &results).await.expect(200);
    assert_eq!(answer["session"]["rotated"], true);
    let expected = [
        shown_summary(),
        "user: Where is it?".to_owned(),
        "assistant a=find({}) b=find({})".to_owned(),
        format!("tool a: {}", many_words(1)),
        "tool b: nothing".to_owned(),
    ];
    assert_eq!(context(&world), expected);
}

#[tokio::test]
async fn pinned_messages_are_carried_through_every_compaction() {
    let world = long_world(&[]).await;
    world.say("trip", "My passport is X123.").await.expect(200);
    let id = text(&world.rows("trip").await[0]["id"]);
    let path = format!("/api/sessions/trip/messages/{id}/pin");
    world.client().send_json("PUT", &path, &json!({})).await.expect(200);
    for number in 1..=12 {
        world.say("trip", &many_words(number)).await.expect(200);
    }
    assert!(summaries(&world).len() >= 2);
    assert_eq!(context(&world)[..2], [shown_summary(), "user: My passport is X123.".to_owned()]);
    world.client().delete(&path).await.expect(200);
    for number in 1..=6 {
        world.say("trip", &many_words(number)).await.expect(200);
    }
    assert!(!context(&world).iter().any(|line| line.contains("X123")), "{:?}", context(&world));
}

#[tokio::test]
async fn a_failed_turn_leaves_its_note_or_is_summarised_with_it() {
    let world = long_world(&[("HERMA_COMPACTION__KEEP_RECENT", "0.5")]).await;
    tell_four(&world, "trip").await;
    world.upstream.push(Reply::status(400, "no"));
    world.say("trip", "broken").await.expect(502);
    world.say("trip", &many_words(6)).await.expect(200);
    let context = context(&world);
    assert_eq!(context[0], shown_summary());
    let note = ["user: broken", crate::support::NO_REPLY];
    assert!(context.windows(2).any(|pair| pair == note), "{context:?}");
}

#[tokio::test]
async fn a_turn_that_fails_after_the_split_can_be_sent_again() {
    let world = long_world(&[]).await;
    tell_four(&world, "trip").await;
    world.upstream.push(Reply::text(super::SUMMARY));
    world.upstream.push(Reply::status(400, "no"));
    world.say("trip", &many_words(5)).await.expect(502);
    let answer = world.say("trip", &many_words(5)).await.expect(200);
    assert_eq!((&answer["session"]["resolution"], &answer["session"]["rotated"]), (&json!("moved"), &json!(false)));
    let said = lines(&world.rows("trip").await);
    assert_eq!(said.iter().filter(|line| line.contains("chapter 5")).count(), 1, "{said:?}");
    assert_eq!(summaries(&world).len(), 1);
}

#[tokio::test]
async fn images_are_kept_or_named_and_never_counted_by_their_bytes() {
    let world = long_world(&[("HERMA_CONTEXT_WINDOW", "12000")]).await;
    let url = format!("data:image/png;base64,{}", "A".repeat(200_000));
    let image = json!({"role": "user", "content": [
        {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]});
    world.upstream.push(Reply::text("A cat."));
    world.in_session("trip").post_json(CHAT, &chat(&[image])).await.expect(200);
    world.upstream.otherwise(|request| {
        if is_summary(request) { Reply::text(super::SUMMARY) } else { counted(request, &many_words(9)) }
    });
    while summaries(&world).is_empty() {
        world.say("trip", &many_words(7)).await.expect(200);
    }
    let quoted = summaries(&world)[0].last_user_text();
    assert!(quoted.contains("What is this?\n[image]") && !quoted.contains("base64"), "{quoted:.300}");
}

#[tokio::test]
async fn with_compaction_off_a_conversation_ends_at_its_window() {
    let world = long_world(&[("HERMA_COMPACTION__MODE", "off")]).await;
    let mut refused = None;
    for number in 1..=12 {
        let answer = world.say("trip", &words(number)).await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let error = crate::support::error(&refused.expect("an end"), 400);
    assert_eq!(error["code"], "context_length_exceeded");
    assert!(summaries(&world).is_empty());
}

#[tokio::test]
async fn a_large_system_prompt_does_not_stop_a_conversation() {
    let world = long_world(&[]).await;
    // The system prompt takes about 3,450 of 4,000 tokens. So less than keep_recent (800) is left for the
    // conversation.
    let system = json!({ "role": "system", "content": "rule. ".repeat(2_300) });
    for number in 0..12 {
        let said = json!({ "role": "user", "content": format!("question {number} {}", "x y ".repeat(60)) });
        let body = json!({ "messages": [system, said] });
        world.in_session("trip").post_json(CHAT, &body).await.expect(200);
    }
    assert!(!summaries(&world).is_empty());
}

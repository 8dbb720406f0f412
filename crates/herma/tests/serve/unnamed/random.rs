//! Random clients of both APIs, with restarts and compactions: each thread is one conversation, and has each message
//! once.

use herma_testkit::{Completion, Recorded, Reply};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use super::{RESPONSES, item, session};
use crate::support::{CHAT, CONVERSATION_ID, TestGateway, assistant, chat, data, user};

const THREADS: usize = 3;

/// What a client sends of its history.
#[derive(Debug, Clone, Copy)]
enum Sends {
    /// All of it.
    Whole,
    /// The last turns, so many.
    Last(usize),
    /// Only the new message, to the conversation by its id.
    Delta,
}

#[derive(Debug, Clone)]
enum Step {
    /// A client says something.
    Say { thread: usize, sends: Sends, responses: bool },
    /// A client goes back by so many turns and says something else.
    Edit { thread: usize, back: usize },
    /// Herma is killed and started again.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let sends = prop_oneof![6 => Just(Sends::Whole), 1 => (1..4_usize).prop_map(Sends::Last), 2 => Just(Sends::Delta)];
    let say = (0..THREADS, sends, any::<bool>());
    let step = prop_oneof![
        8 => say.prop_map(|(thread, sends, responses)| Step::Say { thread, sends, responses }),
        2 => (0..THREADS, 1..3_usize).prop_map(|(thread, back)| Step::Edit { thread, back }),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 4..24)
}

/// A thread as its client knows it.
#[derive(Default)]
struct Thread {
    turns: Vec<(String, String)>,
    /// How many turns at the beginning the client does not send any more.
    cut: usize,
    conversation: Option<String>,
}

/// Answers with what was asked. Summaries are short.
fn answer(request: &Recorded) -> Reply {
    let asked = request.last_user_text();
    let text = match asked.starts_with("thread") {
        true => format!("the answer to {asked}"),
        false => "They spoke.".to_owned(),
    };
    let prompt: u64 = request.messages().iter().map(|message| message.to_string().len() as u64 / 4 + 4).sum();
    Completion::text(text).usage(prompt, 10).into()
}

/// Says something in a thread, and checks where it went and what the model was shown.
async fn say(gateway: &TestGateway, thread: &mut Thread, text: String, sends: Sends, responses: bool, expected: &str) {
    if let Sends::Last(turns) = sends {
        thread.cut = thread.cut.max(thread.turns.len().saturating_sub(turns));
    }
    let known = match (sends, &thread.conversation) {
        (Sends::Delta, Some(_)) => thread.turns.len(),
        _ => thread.cut,
    };
    let client = match (sends, &thread.conversation) {
        (Sends::Delta, Some(conversation)) => gateway.client().header(CONVERSATION_ID, conversation),
        _ => gateway.client(),
    };
    let said = thread.turns[known..].iter();
    let body = if responses {
        let known = said.flat_map(|(asked, answered)| [item("user", asked), item("assistant", answered)]);
        let input: Vec<Value> = known.chain([item("user", &text)]).collect();
        client.post_json(RESPONSES, &json!({"model": "m", "input": input})).await.expect(200)
    } else {
        let known = said.flat_map(|(asked, answered)| [user(asked), assistant(answered)]);
        let messages: Vec<Value> = known.chain([user(&text)]).collect();
        client.post_json(CHAT, &chat(&messages)).await.expect(200)
    };
    let (conversation, resolution) = session(&body);
    // A compaction may have moved the head before the turn began.
    let resolution = if resolution == "moved" { "head" } else { resolution };
    assert_eq!(resolution, expected, "{body}");
    match (&thread.conversation, expected) {
        (Some(before), "head") => assert_eq!(*before, conversation),
        (Some(before), _) => assert_ne!(*before, conversation),
        (None, _) => {}
    }
    thread.conversation = Some(conversation);
    thread.turns.push((text.clone(), format!("the answer to {text}")));
}

/// No request to the model has words of two threads.
fn check_contexts(gateway: &TestGateway) {
    for request in gateway.upstream.requests() {
        let text = request.body["messages"].to_string();
        let threads = (0..THREADS).filter(|thread| text.contains(&format!("thread {thread} "))).count();
        assert!(threads <= 1, "{text}");
    }
}

async fn play(steps: Vec<Step>) {
    let mut gateway = TestGateway::with_settings(&[("HERMA_CONTEXT_WINDOW", "500")]).await;
    gateway.upstream.otherwise(answer);
    let mut threads: Vec<Thread> = (0..THREADS).map(|_| Thread::default()).collect();
    for (number, step) in steps.into_iter().enumerate() {
        let text = |thread: usize| format!("thread {thread} number {number} {}", "word ".repeat(30));
        match step {
            Step::Say { thread, sends, responses } => {
                let (text, thread) = (text(thread), &mut threads[thread]);
                let expected = if thread.turns.is_empty() { "created" } else { "head" };
                say(&gateway, thread, text, sends, responses, expected).await;
            }
            Step::Edit { thread, back } => {
                let (text, thread) = (text(thread), &mut threads[thread]);
                // What a client has cut off it cannot edit, and an edited opening is a new thread.
                if thread.cut > 0 || thread.turns.len() <= back {
                    continue;
                }
                thread.turns.truncate(thread.turns.len() - back);
                say(&gateway, thread, text, Sends::Whole, false, "branched").await;
            }
            Step::Restart => gateway.restart().await,
        }
    }
    check_contexts(&gateway);
    for thread in threads.iter().filter(|thread| thread.conversation.is_some()) {
        let path = format!("/api/sessions/{}/messages?limit=200", thread.conversation.as_ref().unwrap());
        let rows = data(&gateway.client().get(&path).await);
        let rows = rows.iter().filter(|row| row["kind"] != "summary");
        let said: Vec<&str> = rows.map(|row| row["content"].as_str().unwrap().trim()).collect();
        let expected = thread.turns.iter().flat_map(|(asked, answered)| [asked.trim(), answered.trim()]);
        assert_eq!(said, expected.collect::<Vec<_>>());
    }
}

#[test]
fn random_clients_have_one_conversation_per_thread_and_each_message_once() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = Config { cases: 16, max_shrink_iters: 40, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&steps(), |steps| {
            runtime.block_on(play(steps));
            Ok(())
        })
        .unwrap();
}

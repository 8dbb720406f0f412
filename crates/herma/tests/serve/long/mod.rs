//! Conversations that outgrow the context window.

mod failing;
mod kept;
mod moving;
mod other_server;
mod prepared;
mod too_long;
mod trimmed;

use herma_testkit::{Completion, Recorded, Reply};
use serde_json::Value;

use crate::support::{TestGateway, data, lines};

/// The context window of the model, in tokens.
const WINDOW: &str = "4000";
/// The scripted summary.
const SUMMARY: &str = "They spoke of the trip to Lisbon, booking 4711.";

/// A gateway with a small context window. The model counts tokens as Herma estimates them, and answers each request
/// for a summary with [`SUMMARY`].
async fn small_window_gateway(settings: &[(&str, &str)]) -> TestGateway {
    let settings = [&[("HERMA_CONTEXT_WINDOW", WINDOW)], settings].concat();
    let gateway = TestGateway::with_settings(&settings).await;
    gateway
        .upstream
        .otherwise(|request| if is_summary(request) { Reply::text(SUMMARY) } else { counted(request, "noted") });
    gateway
}

/// An answer whose usage is what Herma estimates.
fn counted(request: &Recorded, text: &str) -> Reply {
    let prompt: u64 = request.messages().iter().map(|message| message.to_string().len() as u64 / 4 + 4).sum();
    Completion::text(text).usage(prompt, 10).into()
}

/// Sets the reply to every request for a summary.
fn summaries_are(gateway: &TestGateway, reply: impl Fn(&Recorded) -> Reply + Send + 'static) {
    gateway
        .upstream
        .otherwise(move |request| if is_summary(request) { reply(request) } else { counted(request, "noted") });
}

/// The ledger of a conversation, newest first.
async fn ledger(gateway: &TestGateway, session: &str) -> Vec<Value> {
    data(&gateway.client().get(&format!("/api/sessions/{session}/compactions")).await)
}

/// Whether a request asks for a summary.
fn is_summary(request: &Recorded) -> bool {
    let last = request.messages().last().and_then(|message| message["content"].as_str()).unwrap_or_default();
    last.split_once("</conversation>").is_some_and(|(_, asked)| asked.contains("summary"))
}

/// The requests for a summary.
fn summaries(gateway: &TestGateway) -> Vec<Recorded> {
    gateway.upstream.requests().into_iter().filter(is_summary).collect()
}

/// The last context that was not for a summary, as lines. A summary may be requested at any time.
fn context(gateway: &TestGateway) -> Vec<String> {
    let requests = gateway.upstream.requests();
    let call = requests.iter().rfind(|request| !is_summary(request)).expect("a call");
    lines(call.messages())
}

/// About 480 tokens.
fn words(number: usize) -> String {
    format!("part {number} of the story: {}", "and then more ".repeat(134))
}

/// About 1,200 tokens.
fn many_words(number: usize) -> String {
    format!("chapter {number}: {}", "and then even more ".repeat(250))
}

/// About 2,600 tokens.
fn far_too_many_words() -> String {
    "and then far too much ".repeat(480)
}

/// Four turns. They are too short for a prepared summary. One more message of [`many_words`] passes the threshold.
async fn send_four(gateway: &TestGateway, session: &str) {
    for number in 1..=4 {
        gateway.say(session, &words(number)).await.expect(200);
    }
}

/// The summary as a context shows it.
fn summary_line() -> String {
    format!("user: [Summary of the conversation so far, in place of its earlier messages]\n\n{SUMMARY}")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is to be a text")).to_owned()
}

fn without_nulls(provenance: &Value) -> bool {
    provenance.as_object().is_some_and(|fields| fields.values().all(|value| !value.is_null()))
}

//! Conversations that outgrow a small context window, and all that a client can see of one.

use herma_testkit::{Answer, Client, Completion, Recorded, Reply};
use serde_json::Value;

use crate::support::{CHAT, Cluster, ask, ask_streamed};

/// The context window of the model, in tokens.
const WINDOW: &str = "4000";
/// The scripted summary.
pub(crate) const SUMMARY: &str = "They spoke of the trip to Lisbon, booking 4711.";
/// The compaction modes.
pub(crate) const MODES: [&str; 2] = ["split", "in_place"];

/// Whether the answer is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    Streamed,
}

impl Form {
    pub(crate) fn body(self, text: &str) -> Value {
        match self {
            Self::Whole => ask(text),
            Self::Streamed => ask_streamed(text),
        }
    }
}

/// Processes with a small context window. The model counts tokens as Herma estimates them, and answers each request
/// for a summary with [`SUMMARY`].
pub(crate) async fn small_window_cluster(mode: &str) -> Cluster {
    let cluster = Cluster::with_settings(&[("HERMA_CONTEXT_WINDOW", WINDOW), ("HERMA_COMPACTION__MODE", mode)]).await;
    summaries_are(&cluster, || Reply::text(SUMMARY));
    cluster
}

/// Sets the reply to every request for a summary.
pub(crate) fn summaries_are(cluster: &Cluster, reply: impl Fn() -> Reply + Send + 'static) {
    cluster.upstream.otherwise(move |request| if is_summary(request) { reply() } else { counted(request, "noted") });
}

/// An answer whose usage is what Herma estimates.
pub(crate) fn counted(request: &Recorded, text: &str) -> Reply {
    let prompt: u64 = request.messages().iter().map(|message| message.to_string().len() as u64 / 4 + 4).sum();
    Completion::text(text).usage(prompt, 16).into()
}

/// Whether a request asks for a summary.
pub(crate) fn is_summary(request: &Recorded) -> bool {
    let last = request.messages().last().and_then(|message| message["content"].as_str()).unwrap_or_default();
    last.split_once("</conversation>").is_some_and(|(_, asked)| asked.contains("summary"))
}

/// Whether a message of a context is a note or a tool result that the gateway made up.
pub(crate) fn is_gateway_note(message: &Value) -> bool {
    let text = message["content"].as_str().unwrap_or_default();
    let note = text.contains("[No reply was given: ") || text.contains("[The reply ends here: ");
    text == "[This call was not executed.]" || (message["role"] == "assistant" && note)
}

/// Whether a message of a context is the note in place of messages that were left out without a summary.
pub(crate) fn is_omission_note(message: &Value) -> bool {
    message["content"] == "[Earlier messages of this conversation were left out here.]"
}

/// The number of requests for a summary.
pub(crate) fn summaries(cluster: &Cluster) -> usize {
    cluster.upstream.requests().iter().filter(|request| is_summary(request)).count()
}

/// The contexts of all calls that were not for a summary, as lines.
pub(crate) fn contexts(cluster: &Cluster) -> Vec<Vec<String>> {
    let calls = cluster.upstream.requests().into_iter().filter(|request| !is_summary(request));
    calls.map(|request| request.transcript()).collect()
}

/// About 480 tokens.
pub(crate) fn words(number: usize) -> String {
    format!("part {number} of the story: {}", "and then more ".repeat(134))
}

/// About 1,200 tokens.
pub(crate) fn many_words(number: usize) -> String {
    format!("chapter {number}: {}", "and then even more ".repeat(250))
}

/// The summary as a context shows it.
pub(crate) fn summary_line() -> String {
    format!("user: [Summary of the conversation so far, in place of its earlier messages]\n\n{SUMMARY}")
}

/// Sends one message to the session with this id.
pub(crate) async fn say(client: &Client, id: &str, text: &str) -> Answer {
    crate::support::named(client.clone(), id).post_json(CHAT, &ask(text)).await
}

/// Four turns in `trip`. They are too short for a prepared summary. One more message of [`many_words`] passes the
/// threshold.
pub(crate) async fn send_four(cluster: &Cluster) {
    for number in 1..=4 {
        say(&cluster.herma.client(), "trip", &words(number)).await.expect(200);
    }
}

/// The rows of a list.
pub(crate) async fn rows(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).await.expect(200)["data"].as_array().expect("a list").clone()
}

/// All that a client can see of `trip`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TripView {
    pub(crate) head: String,
    pub(crate) compactions: Value,
    pub(crate) ledger: Vec<Value>,
    pub(crate) sessions: Vec<String>,
    pub(crate) said: Vec<String>,
    pub(crate) summaries: usize,
    pub(crate) model: Vec<String>,
}

impl TripView {
    pub(crate) async fn by(client: &Client) -> Self {
        let row = client.get("/api/sessions/trip").await.expect(200);
        let full = rows(client, "/api/sessions/trip/messages?limit=200").await;
        let (summaries, said): (Vec<Value>, Vec<Value>) = full.into_iter().partition(|row| row["kind"] == "summary");
        let head = row["id"].as_str().expect("an id").to_owned();
        Self {
            sessions: chain(client, &head).await,
            compactions: row["provenance"]["compaction_count"].clone(),
            head,
            ledger: rows(client, "/api/sessions/trip/compactions").await,
            said: said.iter().map(line).collect(),
            summaries: summaries.len(),
            model: rows(client, "/api/sessions/trip/messages?view=model&limit=200").await.iter().map(line).collect(),
        }
    }

    /// The number of messages that are equal to this line.
    pub(crate) fn count(&self, wanted: &str) -> usize {
        self.said.iter().filter(|line| *line == wanted).count()
    }
}

/// The sessions up to a head, oldest first. Checks that they are one chain and that every id leads to the head.
pub(crate) async fn chain(client: &Client, head: &str) -> Vec<String> {
    let mut sessions = Vec::new();
    let mut next = Some(head.to_owned());
    while let Some(id) = next {
        let exact = client.get(&format!("/api/sessions/{id}?pin=exact")).await.expect(200);
        assert_eq!((&exact["id"], exact["ended_at"].is_null()), (&Value::from(id.as_str()), id == head), "{exact}");
        let found = client.get(&format!("/api/sessions/{id}")).await.expect(200);
        assert_eq!(found["id"], head, "{id} leads to the head");
        next = exact["parent_session_id"].as_str().map(str::to_owned);
        sessions.push((id, exact["provenance"]["compression_depth"].clone()));
    }
    sessions.reverse();
    let depths = sessions.iter().enumerate();
    assert!(depths.into_iter().all(|(depth, (_, told))| *told == depth), "{sessions:?}");
    sessions.into_iter().map(|(id, _)| id).collect()
}

/// A message as `role: text`.
pub(crate) fn line(message: &Value) -> String {
    let role = message["role"].as_str().unwrap_or("?");
    match &message["content"] {
        Value::String(text) => format!("{role}: {text}"),
        other => format!("{role}: {other}"),
    }
}

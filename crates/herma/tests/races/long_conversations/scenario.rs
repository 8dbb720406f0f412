//! Executes the steps and checks what the client sees after each.

use std::time::Duration;

use futures_util::future::join_all;
use herma_testkit::{Client, Herma};
use serde_json::{Value, json};

use super::checks::{Observation, Outcome, content};
use super::model::{ScriptedModel, tokens};
use super::steps::{Api, History, Input, ModelReply, Step, Turn};
use crate::long::rows;
use crate::support::{CHAT, Cluster, named};

/// A conversation, two processes that serve it, and what was read of it before.
pub(super) struct LongScenario {
    pub(super) cluster: Cluster,
    other: Herma,
    model: ScriptedModel,
    /// All ids of the conversation that are known, oldest first.
    pub(super) ids: Vec<String>,
    /// The state that was read last.
    pub(super) observed: Observation,
    /// The input of the last turn, if it is stored and has no answer.
    pub(super) unanswered: Option<Vec<Value>>,
    /// Whether that turn was lost when its process was killed.
    pub(super) lost: bool,
    /// Whether a summary was made to fail, so that automatic compaction may be paused.
    summary_failed: bool,
    texts: usize,
}

impl LongScenario {
    pub(super) async fn begin(mode: &str) -> Self {
        let window = super::WINDOW.to_string();
        let settings = [("HERMA_CONTEXT_WINDOW", window.as_str()), ("HERMA_COMPACTION__MODE", mode)];
        let cluster = Cluster::with_settings(&settings).await;
        let other = cluster.another().await;
        let model = ScriptedModel::install(&cluster.upstream);
        let first = json!({"model": "m", "messages": [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Let us begin."}]});
        let answer = cluster.session("trip").post_json(CHAT, &first).await.expect(200);
        let conversation = answer["session"]["conversation_id"].as_str().unwrap().to_owned();
        let observed = Observation::of(&other.client()).await;
        let ids = vec!["trip".to_owned(), conversation];
        Self { cluster, other, model, ids, observed, unanswered: None, lost: false, summary_failed: false, texts: 0 }
    }

    pub(super) async fn step(&mut self, step: &Step) {
        match step {
            Step::Turn(turn) => self.turn(turn).await,
            Step::AtOnce(turns) => self.at_once(turns).await,
            Step::KilledDuring(turn, delay) => self.killed_during(turn, *delay).await,
            Step::Killed { second } => self.kill(*second).await,
            Step::Compact { second, mode } => self.compact(*second, mode).await,
            Step::Undo { second } => self.undo(*second).await,
            Step::Pin { message, pinned } => self.pin(*message, *pinned).await,
            Step::SummaryFails => {
                self.model.fail_next_summary();
                self.summary_failed = true;
            }
        }
        if !matches!(step, Step::Turn(_) | Step::AtOnce(_) | Step::KilledDuring(..)) {
            let now = self.observe().await;
            self.check_nothing_added(&now);
            self.observed = now;
        }
    }

    /// Checks that no turn runs or waits at the end.
    pub(super) async fn settle(&mut self) {
        if self.lost {
            // The next turn takes the lost turn over and records its end.
            let short = Turn { input: Input::Text(5), history: History::None, ..Turn::plain() };
            self.turn(&short).await;
        }
        self.cluster.stored().until_settled().await;
    }

    async fn turn(&mut self, turn: &Turn) {
        self.model.script(turn.reply);
        let (new, body) = self.request(turn);
        let calls = self.calls();
        let outcome = send(self.named(turn.api), body, turn.api.streamed).await;
        self.check_outcome(&outcome, &new, turn.reply);
        let now = self.observe().await;
        self.check_turn_added(&now, &new, &outcome);
        self.check_head(&now, &outcome);
        if self.calls() > calls {
            self.check_context(&now, &outcome);
        }
        self.record(now, &new, &outcome);
    }

    async fn at_once(&mut self, turns: &[(usize, Api)]) {
        self.model.script(ModelReply::Text);
        let inputs: Vec<Vec<Value>> = turns.iter().map(|(size, _)| vec![self.text(*size)]).collect();
        let asked = turns.iter().zip(&inputs).map(|((_, api), new)| {
            let (client, body) = (self.named(*api), json!({"model": "m", "messages": new}));
            tokio::spawn(send(client, body, api.streamed))
        });
        let outcomes: Vec<Outcome> = join_all(asked).await.into_iter().map(Result::unwrap).collect();
        for (outcome, new) in outcomes.iter().zip(&inputs) {
            self.check_outcome(outcome, new, ModelReply::Text);
        }
        let now = self.observe().await;
        self.check_turns_added(&now, &inputs, &outcomes);
        let last = now.said.last().map(|row| row["turn_id"].clone());
        let new_turns = last != self.observed.said.last().map(|row| row["turn_id"].clone());
        if new_turns {
            let answer = now.said.last().cloned().unwrap_or_default();
            self.check_context(&now, &Outcome::Answered { answer, ids: Vec::new() });
            (self.unanswered, self.lost) = (None, false);
        }
        for outcome in outcomes {
            self.record_ids(&outcome);
        }
        self.observed = now;
    }

    async fn killed_during(&mut self, turn: &Turn, delay: u64) {
        self.model.script(turn.reply);
        let (new, body) = self.request(turn);
        let client = self.named(turn.api);
        let asked = tokio::spawn(send(client, body, turn.api.streamed));
        tokio::time::sleep(Duration::from_millis(delay)).await;
        self.kill(turn.api.second).await;
        let outcome = asked.await.unwrap();
        let now = self.observe().await;
        self.check_turn_added(&now, &new, &outcome);
        self.record(now, &new, &outcome);
    }

    async fn kill(&mut self, second: bool) {
        if second {
            self.other.kill();
            self.other = self.cluster.another().await;
        } else {
            self.cluster.restart().await;
        }
    }

    async fn compact(&self, second: bool, mode: &str) {
        let answer = self.client(second).post_json("/api/sessions/trip/compactions", &json!({"mode": mode})).await;
        let code = answer.json()["error"]["code"].as_str().map(str::to_owned);
        let refused = code.as_deref() == Some("nothing_to_compact")
            || (self.summary_failed && code.as_deref() == Some("upstream_error"));
        assert!(answer.status == 200 || refused, "{}", answer.text());
    }

    async fn undo(&self, second: bool) {
        let Some(last) = self.observed.base() else { return };
        let path = format!("/api/sessions/trip/compactions/{}/undo", last["id"].as_str().unwrap());
        let answer = self.client(second).post_bytes(&path, "").await;
        let code = answer.json()["error"]["code"].as_str().map(str::to_owned);
        assert!(answer.status == 200 || code.as_deref() == Some("cannot_undo"), "{}", answer.text());
    }

    async fn pin(&self, message: usize, pinned: bool) {
        let said = &self.observed.said;
        let row = &said[message % said.len()];
        let id = row["id"].as_str().unwrap();
        let method = if pinned { "PUT" } else { "DELETE" };
        let path = format!("/api/sessions/trip/messages/{id}/pin");
        let status = if pinned && row["status"] == "partial" { 409 } else { 200 };
        self.client(pinned).send_json(method, &path, &json!({})).await.expect(status);
    }

    pub(super) fn client(&self, second: bool) -> Client {
        if second { self.other.client() } else { self.cluster.herma.client() }
    }

    fn named(&self, api: Api) -> Client {
        named(self.client(api.second), &self.ids[api.id % self.ids.len()])
    }

    /// The new messages of a turn, and the request body with them.
    fn request(&mut self, turn: &Turn) -> (Vec<Value>, Value) {
        let new = match (turn.input, &self.unanswered) {
            (Input::Again, Some(input)) => input.clone(),
            (Input::Results(count), _) if !self.observed.open_calls().is_empty() => {
                let calls = self.observed.open_calls();
                let results = calls
                    .iter()
                    .take(count + 1)
                    .map(|call| json!({"role": "tool", "tool_call_id": call, "content": "found"}));
                results.collect()
            }
            (Input::Text(size), _) => vec![self.text(size)],
            (Input::Image, _) => vec![self.image()],
            (Input::Again | Input::Results(_), _) => vec![self.text(9)],
        };
        let mut messages = self.observed.history(turn.history);
        // A lost turn is listed as running until it is taken over.
        if let Some(input) = self.unanswered.as_ref().filter(|_| turn.history == History::Answered)
            && messages.ends_with(input)
        {
            messages.truncate(messages.len() - input.len());
        }
        let known = self.unanswered.as_ref().filter(|input| **input == new);
        if known.is_none() || turn.history != History::Whole {
            messages.extend(new.iter().cloned());
        }
        (new, json!({"model": "m", "messages": messages}))
    }

    /// A unique message of about so many tokens.
    fn text(&mut self, size: usize) -> Value {
        self.texts += 1;
        json!({"role": "user", "content": format!("text {}: {}", self.texts, "more ".repeat(size * 4 / 5))})
    }

    fn image(&mut self) -> Value {
        self.texts += 1;
        let url = format!("data:image/png;base64,{}", "A".repeat(9_000));
        json!({"role": "user", "content": [
            {"type": "text", "text": format!("image {}", self.texts)},
            {"type": "image_url", "image_url": {"url": url}}]})
    }

    /// Checks that a turn fails only if the model was told to fail, and is refused only if its input alone is too
    /// long.
    fn check_outcome(&self, outcome: &Outcome, new: &[Value], reply: ModelReply) {
        match outcome {
            Outcome::Answered { .. } => {}
            Outcome::Failed(why) => {
                let wanted = matches!(reply, ModelReply::Error | ModelReply::CutOff);
                assert!(wanted, "{why} to {new:?} although the model answered");
            }
            Outcome::Refused(why) => {
                let is_too_much_by_itself = tokens(new) + 100 > super::WINDOW;
                assert!(
                    is_too_much_by_itself || reply == ModelReply::TooLong,
                    "{:?} was refused: {why}",
                    content(&new[0])
                );
            }
            Outcome::Lost => panic!("no process was killed"),
        }
    }

    fn record(&mut self, now: Observation, new: &[Value], outcome: &Outcome) {
        self.record_ids(outcome);
        let grew = now.said.len() > self.observed.said.len();
        let answered = now.said.last().is_some_and(|row| row["role"] == "assistant" && row["status"] == "complete");
        match outcome {
            Outcome::Answered { .. } => (self.unanswered, self.lost) = (None, false),
            Outcome::Refused(_) => {}
            Outcome::Failed(_) => (self.unanswered, self.lost) = (Some(new.to_vec()), false),
            Outcome::Lost if grew && answered => (self.unanswered, self.lost) = (None, false),
            Outcome::Lost if grew => (self.unanswered, self.lost) = (Some(new.to_vec()), true),
            Outcome::Lost => self.lost |= self.unanswered.as_deref() == Some(new),
        }
        self.observed = now;
    }

    fn record_ids(&mut self, outcome: &Outcome) {
        let Outcome::Answered { ids, .. } = outcome else { return };
        for id in ids.iter().filter(|id| !self.ids.contains(id)).cloned().collect::<Vec<_>>() {
            self.ids.push(id);
        }
    }

    /// The number of model calls that were not for summaries.
    fn calls(&self) -> usize {
        crate::long::contexts(&self.cluster).len()
    }

    /// Reads the conversation and checks the invariants.
    async fn observe(&mut self) -> Observation {
        let now = Observation::of(&self.client(self.texts.is_multiple_of(2))).await;
        self.check_invariants(&now).await;
        for id in now.sessions.iter().filter(|id| !self.ids.contains(id)).cloned().collect::<Vec<_>>() {
            self.ids.push(id);
        }
        now
    }

    pub(super) async fn conversations(&self) -> Vec<Value> {
        rows(&self.cluster.herma.client(), "/api/sessions").await
    }
}

impl Turn {
    fn plain() -> Self {
        let api = Api { id: 0, second: false, streamed: false };
        Self { input: Input::Text(5), history: History::None, api, reply: ModelReply::Text }
    }
}

/// Sends a request and returns how it ended.
async fn send(client: Client, body: Value, streamed: bool) -> Outcome {
    let body = if streamed { crate::support::streamed(body) } else { body };
    let request = client.request("POST".parse().unwrap(), CHAT).header("content-type", "application/json");
    let Ok(response) = request.body(body.to_string()).send().await else { return Outcome::Lost };
    let told = response.headers().get("x-hermes-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let status = response.status().as_u16();
    match response.text().await {
        Ok(text) if streamed && status == 200 => Outcome::of_stream(&text, told),
        Ok(text) => Outcome::of_answer(status, &serde_json::from_str(&text).unwrap(), told.as_deref()),
        Err(_) => Outcome::Lost,
    }
}

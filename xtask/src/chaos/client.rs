//! A client: sends turns as planned, retries as an SDK does or with a key, and records what it sees.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::apis::{Address, Api, Request, RequestResult};
use super::deployment::Deployment;
use super::history::{Attempt, End, HandedId, Retries, Turn};
use super::marks::{self, Token};
use super::model::SURE;
use super::options::Options;
use super::plan::Plan;
use super::recorder::Recorder;
use crate::random::Random;

/// Requests for one turn, including the first.
const TRIES: u32 = 6;
/// The extra pause after a broken connection, which gives a process time to restart.
const RECONNECT: Duration = Duration::from_millis(300);
/// How many other turns come between a failure and the late retry with its key.
const LATE_AFTER: usize = 2;

/// A conversation as its clients know it.
#[derive(Debug)]
pub(super) struct ClientConversation {
    pub(super) thread: usize,
    pub(super) tenant: usize,
    pub(super) name: String,
    known: Mutex<KnownState>,
}

#[derive(Debug, Default)]
struct KnownState {
    /// Names that lead to the conversation: its own name, and session and conversation ids.
    names: Vec<String>,
    branches: Vec<String>,
    responses: Vec<String>,
    /// Answered questions. Complete only if one client alone uses the conversation; only then they are sent.
    history: Vec<(String, String)>,
}

impl ClientConversation {
    pub(super) fn new(thread: usize, tenant: usize, name: String) -> Self {
        let known = KnownState { names: vec![name.clone()], ..KnownState::default() };
        Self { thread, tenant, name, known: Mutex::new(known) }
    }

    fn lock(&self) -> MutexGuard<'_, KnownState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client at work.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) deployment: Arc<Deployment>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) options: Arc<Options>,
    pub(super) random: Random,
    /// The number of its first message.
    pub(super) first: u32,
    pub(super) own: Arc<ClientConversation>,
    pub(super) shared: Vec<Arc<ClientConversation>>,
}

/// A turn that has been planned, and the number of requests sent for it.
#[derive(Debug)]
pub(super) struct PendingTurn {
    number: usize,
    target: Arc<ClientConversation>,
    pub(super) plan: Plan,
    request: Request,
    key: String,
    tries: u32,
}

impl Worker {
    /// Sends turns until the deadline. The last turn is retried to its end even after the deadline.
    pub(super) async fn work(mut self, deadline: Instant) {
        let mut late: Vec<(usize, PendingTurn)> = Vec::new();
        let mut turns = 0;
        while Instant::now() < deadline && turns < SURE {
            let plan = Plan::draw(&self.options, &mut self.random);
            tokio::time::sleep(plan.rest).await;
            let target = self.target(&plan);
            if plan.branches {
                self.branch(&target, &plan).await;
            }
            let mut asked = self.begin(self.first + turns, target, plan);
            let has_failed = self.ask(&mut asked).await;
            turns += 1;
            if has_failed && asked.plan.retries == Retries::Keyed && asked.plan.is_late {
                late.push((turns as usize + LATE_AFTER, asked));
            }
            while let Some(due) = late.iter().position(|(due, _)| *due <= turns as usize) {
                let (_, mut asked) = late.remove(due);
                asked.tries = 0;
                self.recorder.count("late retries");
                let _failed_again = self.ask(&mut asked).await;
            }
        }
    }

    fn target(&self, plan: &Plan) -> Arc<ClientConversation> {
        let shared = self.shared.get(plan.choices as usize % self.shared.len().max(1)).filter(|_| plan.is_shared);
        Arc::clone(shared.unwrap_or(&self.own))
    }

    /// Records a turn and builds its request. All retries send the same request.
    pub(super) fn begin(&mut self, number: u32, target: Arc<ClientConversation>, plan: Plan) -> PendingTurn {
        let token = Token(number);
        let text = marks::question(token, plan.words, plan.calls_tool, &mut self.random);
        let request = request(&target, &plan, text.clone(), Arc::ptr_eq(&target, &self.own));
        let brings_history = !request.history.is_empty() || matches!(request.address, Address::Previous(_));
        let number = self.recorder.begin(Turn {
            token,
            thread: target.thread,
            text,
            api: format!("{:?} {:?} {:?}", request.api, request.address, plan.policy),
            retries: plan.retries,
            brings_history,
            attempts: Vec::new(),
        });
        PendingTurn { number, target, plan, request, key: format!("key-{}", token.0), tries: 0 }
    }

    /// Sends the request until it is answered or the client stops retrying. Returns true if the last request failed.
    pub(super) async fn ask(&self, asked: &mut PendingTurn) -> bool {
        loop {
            let seen = self.send(asked).await;
            if matches!(seen.end, Some(End::Broken { .. })) {
                tokio::time::sleep(RECONNECT).await;
            }
            if !tries_again(asked, &seen) {
                return matches!(seen.end, Some(End::Failed { .. }));
            }
            let pause = 20 << (asked.plan.choices >> 8 & 3) << asked.tries.min(3);
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn send(&self, asked: &mut PendingTurn) -> RequestResult {
        let server = (asked.plan.choices >> (16 + asked.tries)) as usize & 1;
        let mut client = self.deployment.client(server, asked.target.tenant);
        if let Some(policy) = asked.plan.policy {
            client = client.header("x-hermes-turn-policy", policy);
        }
        if !asked.plan.calls_tool {
            client = client.header("x-hermes-tools", "off");
        }
        match asked.plan.retries {
            Retries::Keyed => client = client.header("idempotency-key", &asked.key),
            Retries::Counted => client = client.header("x-stainless-retry-count", &asked.tries.to_string()),
            Retries::Never => {}
        }
        let hang_up = asked.plan.hangs_up.filter(|_| asked.tries == 0);
        let sent = self.deployment.now();
        let seen = asked.request.send(&client, asked.plan.patience, hang_up).await;
        self.record(asked, server, sent, &seen);
        asked.tries += 1;
        seen
    }

    fn record(&self, asked: &PendingTurn, server: usize, sent: u64, seen: &RequestResult) {
        let Some(end) = seen.end.clone() else { return };
        if asked.tries > 0 {
            self.recorder.count("retries");
        }
        self.recorder.count(match end {
            End::Answered { .. } => "answers",
            End::Failed { .. } => "errors",
            End::Broken { .. } => "broken connections",
            End::GaveUp { .. } => "hang-ups",
        });
        let target = &asked.target;
        let mut known = target.lock();
        for (id, conversation) in seen.ids.iter().filter(|(_, conversation)| !conversation.is_empty()) {
            let handed = HandedId { tenant: target.tenant, id: id.clone(), conversation: conversation.clone() };
            self.recorder.handed(handed);
            if seen.is_main && Some(id) != seen.object.as_ref() && !known.names.contains(id) {
                known.names.push(id.clone());
            }
        }
        if let End::Answered { text, conversation } = &end {
            if seen.is_main {
                let (tenant, id) = (target.tenant, target.name.clone());
                self.recorder.handed(HandedId { tenant, id, conversation: conversation.clone() });
                known.history.push((asked.request.text.clone(), text.clone()));
            }
            if matches!(asked.request.api, Api::Response { .. }) {
                known.responses.extend(seen.object.clone());
            }
        }
        let object = seen.object.clone();
        self.recorder.attempt(asked.number, Attempt { server, sent, ended: self.deployment.now(), end, object });
    }

    /// Makes a branch and remembers its id for this and later turns.
    async fn branch(&self, target: &ClientConversation, plan: &Plan) {
        let client = self.deployment.client(plan.choices as usize >> 4 & 1, target.tenant);
        let request = client.request(reqwest::Method::POST, &format!("/api/sessions/{}/branch", target.name));
        let request = request.header("content-type", "application/json").body("{}");
        let Ok(Ok(response)) = tokio::time::timeout(plan.patience, request.send()).await else { return };
        if response.status() != 201 {
            return;
        }
        let Ok(Ok(body)) = tokio::time::timeout(plan.patience, response.bytes()).await else { return };
        let row: serde_json::Value = serde_json::from_slice(&body).unwrap_or_else(|_| json!({}));
        if let (Some(id), Some(conversation)) = (row["id"].as_str(), row["conversation_id"].as_str()) {
            self.recorder.count("branches");
            for id in [id, conversation] {
                let handed =
                    HandedId { tenant: target.tenant, id: id.to_owned(), conversation: conversation.to_owned() };
                self.recorder.handed(handed);
            }
            target.lock().branches.push(conversation.to_owned());
        }
    }
}

/// Builds the request of a turn: its address and the history in it.
fn request(target: &ClientConversation, plan: &Plan, text: String, is_own: bool) -> Request {
    let known = target.lock();
    let pick = |names: &[String]| names.get((plan.choices >> 32) as usize % names.len().max(1)).cloned();
    let is_response = matches!(plan.api, Api::Response { .. });
    let into_branch = (plan.choices >> 48).is_multiple_of(8);
    if let Some(branch) = pick(&known.branches).filter(|_| plan.branches || into_branch) {
        return Request { api: plan.api, address: Address::Name(branch), history: Vec::new(), text };
    }
    if let Some(response) = known.responses.last().filter(|_| is_response && plan.names_response) {
        return Request { api: plan.api, address: Address::Previous(response.clone()), history: Vec::new(), text };
    }
    // Half of the requests use the name, the others any id of the conversation.
    let name = if plan.choices >> 40 & 1 == 0 { Some(target.name.clone()) } else { pick(&known.names) };
    let address = Address::Name(name.unwrap_or_else(|| target.name.clone()));
    let is_chat = matches!(plan.api, Api::Chat { .. });
    let history = if is_own && is_chat && plan.brings_history { known.history.clone() } else { Vec::new() };
    Request { api: plan.api, address, history, text }
}

/// Whether the client sends the request again, according to its kind of retries.
fn tries_again(asked: &PendingTurn, seen: &RequestResult) -> bool {
    if asked.tries >= TRIES {
        return false;
    }
    match (asked.plan.retries, &seen.end) {
        (Retries::Never, _) => false,
        // An SDK that has the run's id has the answer to its request, so it does not retry.
        (Retries::Counted, _) if asked.request.api == Api::Run && seen.object.is_some() => false,
        (_, Some(End::Broken { .. } | End::GaveUp { .. })) => true,
        // The SDKs retry on some statuses. An error inside a stream or a run goes to the caller.
        (Retries::Counted, Some(End::Failed { status, .. })) => {
            !seen.is_final && (matches!(status, 408 | 409 | 429) || *status >= 500)
        }
        (Retries::Keyed, Some(End::Failed { status, .. })) => *status < 300 || *status == 409 || *status >= 500,
        (_, Some(End::Answered { .. }) | None) => false,
    }
}

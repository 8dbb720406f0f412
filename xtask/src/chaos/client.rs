//! A client: sends turns as planned, retries as an SDK does or with a key, and records what it sees.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::apis::{Address, Api, Request, Seen};
use super::book::Book;
use super::history::{Attempt, End, HandedId, Retries, Turn};
use super::marks::{self, Token};
use super::model::SURE;
use super::options::Options;
use super::plan::Plan;
use super::world::World;
use crate::random::Random;

/// Requests for one turn, including the first.
const TRIES: u32 = 6;
/// The extra pause after a broken connection, which gives a process time to restart.
const RECONNECT: Duration = Duration::from_millis(300);
/// How many other turns come between a failure and the late retry with its key.
const LATE_AFTER: usize = 2;

/// A conversation as its clients know it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) thread: usize,
    pub(super) tenant: usize,
    pub(super) name: String,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Names that lead to the conversation: its own name, and session and conversation ids.
    names: Vec<String>,
    branches: Vec<String>,
    responses: Vec<String>,
    /// Answered questions. Complete only if one client alone uses the conversation; only then they are sent.
    history: Vec<(String, String)>,
}

impl Place {
    pub(super) fn new(thread: usize, tenant: usize, name: String) -> Self {
        let known = Known { names: vec![name.clone()], ..Known::default() };
        Self { thread, tenant, name, known: Mutex::new(known) }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client at work.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) world: Arc<World>,
    pub(super) book: Arc<Book>,
    pub(super) options: Arc<Options>,
    pub(super) random: Random,
    /// The number of its first message.
    pub(super) first: u32,
    pub(super) own: Arc<Place>,
    pub(super) shared: Vec<Arc<Place>>,
}

/// A turn that has been planned, and the number of requests sent for it.
#[derive(Debug)]
pub(super) struct Asked {
    number: usize,
    place: Arc<Place>,
    pub(super) plan: Plan,
    request: Request,
    key: String,
    tries: u32,
}

impl Worker {
    /// Sends turns until the deadline. The last turn is retried to its end even after the deadline.
    pub(super) async fn work(mut self, deadline: Instant) {
        let mut late: Vec<(usize, Asked)> = Vec::new();
        let mut turns = 0;
        while Instant::now() < deadline && turns < SURE {
            let plan = Plan::draw(&self.options, &mut self.random);
            tokio::time::sleep(plan.rest).await;
            let place = self.place(&plan);
            if plan.branches {
                self.branch(&place, &plan).await;
            }
            let mut asked = self.begin(self.first + turns, place, plan);
            let has_failed = self.ask(&mut asked).await;
            turns += 1;
            if has_failed && asked.plan.retries == Retries::Keyed && asked.plan.is_late {
                late.push((turns as usize + LATE_AFTER, asked));
            }
            while let Some(due) = late.iter().position(|(due, _)| *due <= turns as usize) {
                let (_, mut asked) = late.remove(due);
                asked.tries = 0;
                self.book.count("late retries");
                let _failed_again = self.ask(&mut asked).await;
            }
        }
    }

    fn place(&self, plan: &Plan) -> Arc<Place> {
        let shared = self.shared.get(plan.choices as usize % self.shared.len().max(1)).filter(|_| plan.is_shared);
        Arc::clone(shared.unwrap_or(&self.own))
    }

    /// Records a turn and builds its request. All retries send the same request.
    pub(super) fn begin(&mut self, number: u32, place: Arc<Place>, plan: Plan) -> Asked {
        let token = Token(number);
        let text = marks::question(token, plan.words, &mut self.random);
        let request = request(&place, &plan, text.clone(), Arc::ptr_eq(&place, &self.own));
        let brings_history = !request.history.is_empty() || matches!(request.address, Address::Previous(_));
        let number = self.book.begin(Turn {
            token,
            thread: place.thread,
            text,
            api: format!("{:?} {:?} {:?}", request.api, request.address, plan.policy),
            retries: plan.retries,
            brings_history,
            attempts: Vec::new(),
        });
        Asked { number, place, plan, request, key: format!("key-{}", token.0), tries: 0 }
    }

    /// Sends the request until it is answered or the client stops retrying. Returns true if the last request failed.
    pub(super) async fn ask(&self, asked: &mut Asked) -> bool {
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

    async fn send(&self, asked: &mut Asked) -> Seen {
        let server = (asked.plan.choices >> (16 + asked.tries)) as usize & 1;
        let mut client = self.world.client(server, asked.place.tenant);
        if let Some(policy) = asked.plan.policy {
            client = client.header("x-hermes-turn-policy", policy);
        }
        match asked.plan.retries {
            Retries::Keyed => client = client.header("idempotency-key", &asked.key),
            Retries::Counted => client = client.header("x-stainless-retry-count", &asked.tries.to_string()),
            Retries::Never => {}
        }
        let hang_up = asked.plan.hangs_up.filter(|_| asked.tries == 0);
        let sent = self.world.now();
        let seen = asked.request.send(&client, asked.plan.patience, hang_up).await;
        self.write_down(asked, server, sent, &seen);
        asked.tries += 1;
        seen
    }

    fn write_down(&self, asked: &Asked, server: usize, sent: u64, seen: &Seen) {
        let Some(end) = seen.end.clone() else { return };
        if asked.tries > 0 {
            self.book.count("retries");
        }
        self.book.count(match end {
            End::Answered { .. } => "answers",
            End::Failed { .. } => "errors",
            End::Broken { .. } => "broken connections",
            End::GaveUp { .. } => "hang-ups",
        });
        let place = &asked.place;
        let mut known = place.lock();
        for (id, conversation) in seen.ids.iter().filter(|(_, conversation)| !conversation.is_empty()) {
            let handed = HandedId { tenant: place.tenant, id: id.clone(), conversation: conversation.clone() };
            self.book.handed(handed);
            if seen.is_main && Some(id) != seen.object.as_ref() && !known.names.contains(id) {
                known.names.push(id.clone());
            }
        }
        if let End::Answered { text, conversation } = &end {
            if seen.is_main {
                let (tenant, id) = (place.tenant, place.name.clone());
                self.book.handed(HandedId { tenant, id, conversation: conversation.clone() });
                known.history.push((asked.request.text.clone(), text.clone()));
            }
            if matches!(asked.request.api, Api::Response { .. }) {
                known.responses.extend(seen.object.clone());
            }
        }
        let object = seen.object.clone();
        self.book.attempt(asked.number, Attempt { server, sent, ended: self.world.now(), end, object });
    }

    /// Makes a branch and remembers its id for this and later turns.
    async fn branch(&self, place: &Place, plan: &Plan) {
        let client = self.world.client(plan.choices as usize >> 4 & 1, place.tenant);
        let request = client.request(reqwest::Method::POST, &format!("/api/sessions/{}/branch", place.name));
        let request = request.header("content-type", "application/json").body("{}");
        let Ok(Ok(response)) = tokio::time::timeout(plan.patience, request.send()).await else { return };
        if response.status() != 201 {
            return;
        }
        let Ok(Ok(body)) = tokio::time::timeout(plan.patience, response.bytes()).await else { return };
        let row: serde_json::Value = serde_json::from_slice(&body).unwrap_or_else(|_| json!({}));
        if let (Some(id), Some(conversation)) = (row["id"].as_str(), row["conversation_id"].as_str()) {
            self.book.count("branches");
            for id in [id, conversation] {
                let handed =
                    HandedId { tenant: place.tenant, id: id.to_owned(), conversation: conversation.to_owned() };
                self.book.handed(handed);
            }
            place.lock().branches.push(conversation.to_owned());
        }
    }
}

/// Builds the request of a turn: its address and the history in it.
fn request(place: &Place, plan: &Plan, text: String, is_own: bool) -> Request {
    let known = place.lock();
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
    let name = if plan.choices >> 40 & 1 == 0 { Some(place.name.clone()) } else { pick(&known.names) };
    let address = Address::Name(name.unwrap_or_else(|| place.name.clone()));
    let is_chat = matches!(plan.api, Api::Chat { .. });
    let history = if is_own && is_chat && plan.brings_history { known.history.clone() } else { Vec::new() };
    Request { api: plan.api, address, history, text }
}

/// Whether the client sends the request again, according to its kind of retries.
fn tries_again(asked: &Asked, seen: &Seen) -> bool {
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

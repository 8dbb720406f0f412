//! Executes the steps, checks each result, and updates the expected state.

use std::time::Duration;

use herma_testkit::{Client, Gate, Herma};
use serde_json::{Value, json};

use super::apis::{Question, TurnResult, ended};
use super::checks::{line_of, lines, said};
use super::reference::{Address, Line, Record, ReferenceModel, Target, newest};
use super::server::{Server, answer, beginning, words};
use super::steps::{Api, ModelAnswer, Name, Step, Turn};
use super::{SLUGS, WINDOW};
use crate::long::rows;
use crate::support::Cluster;

const CONVERSATIONS: &str = "/v1/conversations";

/// Two processes on one database, and the state that they must show.
pub(super) struct ThreadScenario {
    pub(super) cluster: Cluster,
    other: Herma,
    pub(super) server: Server,
    pub(super) reference: ReferenceModel,
}

/// What a turn must end with.
#[derive(Debug, Clone)]
pub(super) enum Expected {
    /// This answer.
    ModelAnswer(String),
    /// An error.
    Failure,
    /// This answer, an error, or no trace, because the process was killed.
    Anything(String),
}

impl ThreadScenario {
    pub(super) async fn begin(mode: &str) -> Self {
        let settings = [("HERMA_CONTEXT_WINDOW", WINDOW), ("HERMA_COMPACTION__MODE", mode)];
        let cluster = Cluster::with_settings(&settings).await;
        let other = cluster.another().await;
        let server = Server::install(&cluster.upstream);
        Self { cluster, other, server, reference: ReferenceModel::default() }
    }

    pub(super) async fn step(&mut self, step: &Step) {
        match step {
            Step::Turn(turn) => self.turn(turn).await,
            Step::AtOnce { slug, turns } => self.at_once(SLUGS[*slug], *turns).await,
            Step::DeletedDuring { slug, turn, second } => self.deleted_during(SLUGS[*slug], *turn, *second).await,
            Step::KilledDuring(turn, delay) => self.killed_during(turn, *delay).await,
            Step::KilledInBackground { turn, shown } => self.killed_in_background(turn, *shown).await,
            Step::Killed { second } => self.kill(*second).await,
            Step::Compact { name, second, mode } => self.compact(*name, *second, mode).await,
            Step::AddItems { name, second, items } => self.add_items(*name, *second, items).await,
            Step::DeleteItem { name, line, second } => self.delete_item(*name, *line, *second).await,
            Step::DeleteResponse { response, second } => self.delete_response(*response, *second).await,
            Step::DeleteConversation { name, second } => self.delete_conversation(*name, *second).await,
        }
    }

    pub(super) fn client(&self, second: bool) -> Client {
        if second { self.other.client() } else { self.cluster.herma.client() }
    }

    async fn turn(&mut self, turn: &Turn) {
        let number = self.reference.number();
        let (question, target) = self.question(turn, number);
        self.server.script(number, turn.answer);
        let expected = match turn.answer {
            ModelAnswer::Text(size) => Expected::ModelAnswer(answer(number, size)),
            ModelAnswer::Error | ModelAnswer::CutOff => Expected::Failure,
        };
        let seen = question.clone().ask(self.client(turn.second)).await;
        self.check_and_record(number, &question, &target, &expected, &seen).await;
    }

    async fn killed_during(&mut self, turn: &Turn, delay: u64) {
        let number = self.reference.number();
        let (question, target) = self.question(turn, number);
        self.server.script(number, ModelAnswer::Text(turn.size));
        let (asking, client) = (question.clone(), self.client(turn.second));
        let asked = tokio::spawn(async move { asking.send(&client).await });
        tokio::time::sleep(Duration::from_millis(delay)).await;
        self.kill(turn.second).await;
        let mut seen = asked.await.unwrap().unwrap_or_default();
        if matches!(question.api, Api::Background | Api::Run) && seen.id.is_some() {
            seen = ended(&self.client(turn.second), question.api, seen).await;
        }
        self.until_turns_ended().await;
        let expected = Expected::Anything(answer(number, turn.size));
        self.check_and_record(number, &question, &target, &expected, &seen).await;
    }

    async fn killed_in_background(&mut self, turn: &Turn, shown: bool) {
        let number = self.reference.number();
        let api = if turn.api == Api::Run { Api::Run } else { Api::Background };
        let (question, target) = self.question(&Turn { api, ..turn.clone() }, number);
        let gate = Gate::new();
        self.server.script_gated(number, ModelAnswer::Text(turn.size), &gate);
        gate.release(usize::from(shown));
        let begun = question.send(&self.client(turn.second)).await.expect("an answer");
        let seen = if target == Target::Unknown {
            begun
        } else {
            gate.until_waiting(1).await;
            self.kill(turn.second).await;
            ended(&self.client(turn.second), api, begun).await
        };
        assert!(target == Target::Unknown || seen.code() == "interrupted", "{seen:?}");
        self.until_turns_ended().await;
        self.check_and_record(number, &question, &target, &Expected::Failure, &seen).await;
    }

    async fn kill(&mut self, second: bool) {
        if second {
            self.other.kill();
            self.other = self.cluster.another().await;
        } else {
            self.cluster.restart().await;
        }
    }

    /// Waits until the turns of a killed process have been taken over.
    async fn until_turns_ended(&self) {
        self.cluster.stored().until_turns("running", 0).await;
        self.cluster.stored().until_turns("queued", 0).await;
    }

    /// The request for a turn, and the conversation that it must go to.
    fn question(&self, turn: &Turn, number: usize) -> (Question, Target) {
        let (address, target) = self.reference.look_up(turn.name, turn.api);
        let stored = turn.stored || matches!(address, Address::Nothing) || turn.api == Api::Background;
        (Question { address, api: turn.api, text: words(number, turn.size), stored }, target)
    }

    /// Checks the result of a turn and records it.
    async fn check_and_record(
        &mut self,
        number: usize,
        asked: &Question,
        target: &Target,
        expected: &Expected,
        seen: &TurnResult,
    ) {
        if *target == Target::Unknown {
            let refused =
                seen.status == Some(404) || matches!(expected, Expected::Anything(_)) && seen.status.is_none();
            assert!(refused, "{asked:?} was to be refused: {seen:?}");
            assert!(self.shown(number).is_empty(), "a refused turn reached the model");
            return;
        }
        match expected {
            Expected::ModelAnswer(text) => assert_eq!(seen.text.as_ref(), Some(text), "{asked:?}: {seen:?}"),
            Expected::Failure => assert!(!seen.error.is_null() && seen.status != Some(404), "{asked:?}: {seen:?}"),
            Expected::Anything(_) => {}
        }
        let Some(handle) = self.handle(target, seen).await else {
            assert!(matches!(expected, Expected::Anything(_)), "{asked:?} left nothing: {seen:?}");
            return;
        };
        let before = self.reference.before(target);
        let thread = self.reference.find_or_add(target, &handle);
        let now = said(&self.client(number.is_multiple_of(2)), &handle).await;
        let before_now = before.iter().filter(|line| !line.is_deleted).count();
        assert!(now.len() >= before_now, "{now:?}");
        self.check_and_record_rows(number, asked, thread, &now[before_now..], expected, seen);
        self.check_transcript(thread, &now);
    }

    /// The handle of the conversation that a turn went to. `None` if a killed process left no new conversation.
    async fn handle(&self, target: &Target, seen: &TurnResult) -> Option<String> {
        if let Some(told) = seen.session["conversation_id"].as_str() {
            let resolution = seen.session["resolution"].as_str().unwrap();
            let agrees = match target {
                Target::Continue(_) => ["head", "moved"].contains(&resolution),
                Target::Branch(..) => resolution == "branched",
                Target::Fresh(_) => resolution == "created",
                Target::Unknown => false,
            };
            assert!(agrees, "{target:?} was {resolution}");
            return Some(told.to_owned());
        }
        if let Target::Continue(thread) = target {
            return Some(self.reference.threads[*thread].handle.clone());
        }
        let mut new = self.handles().await;
        new.retain(|handle| self.reference.of_handle(handle).is_none());
        assert!(new.len() <= 1, "more than one conversation was made: {new:?}");
        new.pop()
    }

    /// The handles of all listed conversations.
    pub(super) async fn handles(&self) -> Vec<String> {
        let listed = rows(&self.client(false), &format!("{CONVERSATIONS}?limit=100")).await;
        listed.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Checks the rows that a turn left. Records its lines and its ids.
    pub(super) fn check_and_record_rows(
        &mut self,
        number: usize,
        asked: &Question,
        thread: usize,
        rows: &[Value],
        expected: &Expected,
        seen: &TurnResult,
    ) {
        let before = self.reference.threads[thread].lines.clone();
        self.check_contexts(number, &before);
        let lines = lines(rows);
        let user = line_of("user", &asked.text);
        let (is_answered, left) = match (expected, &lines[..]) {
            (Expected::ModelAnswer(text), [first, last]) => {
                (true, *first == user && *last == line_of("assistant", text))
            }
            (Expected::Failure, [first, rest @ ..]) => (false, *first == user && is_cut_off(number, rest)),
            (Expected::Anything(_), []) => return assert!(seen.status.is_none(), "{seen:?} left nothing"),
            (Expected::Anything(text), [first, last]) if *last == line_of("assistant", text) => (true, *first == user),
            (Expected::Anything(_), [first, rest @ ..]) => (false, *first == user && is_cut_off(number, rest)),
            _ => (false, false),
        };
        assert!(left, "{asked:?} with {expected:?} left {rows:?}");
        assert!(seen.text.is_none() || is_answered, "{seen:?} left {rows:?}");
        let said = lines.into_iter().map(|line| Line { turn: number, is_answered, ..line });
        self.reference.threads[thread].lines.extend(said);
        self.record_ids(number, asked, thread, &rows[0], is_answered, seen);
    }

    fn record_ids(
        &mut self,
        number: usize,
        asked: &Question,
        thread: usize,
        row: &Value,
        done: bool,
        seen: &TurnResult,
    ) {
        let digits = row["turn_id"].as_str().and_then(|id| id.strip_prefix("turn_")).unwrap();
        let prefix = if asked.api == Api::Run { "run" } else { "resp" };
        let id = format!("{prefix}_{digits}");
        let (is_run, is_response) = (asked.api == Api::Run, asked.api.makes_a_response());
        if is_run || is_response {
            assert!(seen.id.as_ref().is_none_or(|told| *told == id), "{seen:?} of {row}");
            self.reference.records.push(Record {
                id: id.clone(),
                thread,
                turn: number,
                api: asked.api,
                is_kept: is_run || asked.stored,
                is_completed: done,
                frames: seen.frames.clone(),
            });
        }
        let session = seen.session["session_id"].as_str().map(str::to_owned);
        for name in session.into_iter().chain(Some(id).filter(|_| is_run)) {
            if !SLUGS.contains(&name.as_str()) && self.reference.sessions.iter().all(|(known, _)| *known != name) {
                self.reference.sessions.push((name, thread));
            }
        }
    }

    /// A name as a path segment, and the conversation that it leads to. Only for requests that create no
    /// conversation.
    fn named(&self, name: Name) -> (String, Option<usize>) {
        let (address, target) = self.reference.look_up(name, Api::Chat);
        let name = match address {
            Address::Conversation(name) | Address::Session(name) | Address::Previous(name) => name,
            Address::Nothing => "nobody".to_owned(),
        };
        match target {
            Target::Continue(thread) => (name, Some(thread)),
            _ => (name, None),
        }
    }

    async fn compact(&self, name: Name, second: bool, mode: &str) {
        let (name, thread) = self.named(name);
        let path = format!("/api/sessions/{name}/compactions");
        let answer = self.client(second).post_json(&path, &json!({"mode": mode})).await;
        let code = answer.json()["error"]["code"].as_str().map(str::to_owned);
        match thread {
            None => assert_eq!(answer.status, 404, "{}", answer.text()),
            Some(_) => {
                let nothing = code.as_deref() == Some("nothing_to_compact");
                assert!(answer.status == 200 || nothing, "{}", answer.text());
            }
        }
    }

    async fn add_items(&mut self, name: Name, second: bool, items: &[(usize, bool)]) {
        let (name, thread) = self.named(name);
        let turn = self.reference.number();
        let mut new = Vec::new();
        for (size, is_users) in items {
            let role = if *is_users { "user" } else { "assistant" };
            let text = words(self.reference.number(), *size);
            new.push(Line { turn, is_answered: true, ..line_of(role, &text) });
        }
        let items: Vec<Value> = new.iter().map(|line| json!({"role": line.role, "content": line.text})).collect();
        let path = format!("{CONVERSATIONS}/{name}/items");
        let answer = self.client(second).post_json(&path, &json!({"items": items})).await;
        let Some(thread) = thread else {
            answer.expect(404);
            return;
        };
        answer.expect(200);
        self.reference.threads[thread].lines.extend(new);
        self.check_stored_transcript(thread).await;
    }

    async fn delete_item(&mut self, name: Name, line: usize, second: bool) {
        let (name, Some(thread)) = self.named(name) else { return };
        let Some(line) = newest(&self.reference.threads[thread].said(), line).map(|line| (*line).clone()) else {
            return;
        };
        let client = self.client(second);
        let items = rows(&client, &format!("{CONVERSATIONS}/{name}/items?limit=100")).await;
        let item = items.iter().find(|item| item["content"][0]["text"] == line.text).expect("the item");
        let path = format!("{CONVERSATIONS}/{name}/items/{}", item["id"].as_str().unwrap());
        let answer = client.delete(&path).await;
        if self.reference.is_shared(thread, &line) {
            assert_eq!(answer.expect(409)["error"]["code"], "item_is_shared");
            return;
        }
        answer.expect(200);
        let lines = self.reference.threads[thread].lines.iter_mut();
        lines.filter(|other| other.text == line.text).for_each(|line| line.is_deleted = true);
        self.check_stored_transcript(thread).await;
    }

    async fn delete_response(&mut self, response: usize, second: bool) {
        let responses: Vec<&Record> = self.reference.responses().collect();
        let Some(response) = newest(&responses, response) else { return };
        let id = response.id.clone();
        let is_there = response.is_kept && self.reference.threads[response.thread].is_alive;
        let answer = self.client(second).delete(&super::apis::path(Api::Response, &id)).await;
        answer.expect(if is_there { 200 } else { 404 });
        self.reference.records.iter_mut().filter(|record| record.id == id).for_each(|record| record.is_kept = false);
    }

    async fn delete_conversation(&mut self, name: Name, second: bool) {
        let (name, thread) = self.named(name);
        let answer = self.client(second).delete(&format!("{CONVERSATIONS}/{name}")).await;
        let Some(thread) = thread else {
            answer.expect(404);
            return;
        };
        assert_eq!(answer.expect(200)["id"], self.reference.threads[thread].handle);
        self.reference.threads[thread].is_alive = false;
    }
}

/// Whether these lines are empty, or the partial answer as far as it was streamed.
fn is_cut_off(number: usize, rest: &[Line]) -> bool {
    let shown = Line { is_partial: true, ..line_of("assistant", &beginning(number)) };
    rest.is_empty() || rest == [shown]
}

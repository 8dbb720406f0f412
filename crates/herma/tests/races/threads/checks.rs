//! Invariants of conversations, their names and their responses.

use herma_testkit::{Client, Recorded};
use serde_json::Value;

use super::SLUGS;
use super::apis::{path, text_of};
use super::reference::{Line, Record};
use super::scenario::ThreadScenario;
use super::server::number_of;
use super::steps::Api;
use crate::long::{is_gateway_note, is_summary, rows};

/// All messages of a conversation as rows, without summaries.
pub(super) async fn said(client: &Client, name: &str) -> Vec<Value> {
    let page = client.get(&format!("/api/sessions/{name}/messages?view=full&limit=200")).await.expect(200);
    assert_eq!(page["has_more"], false);
    let rows = page["data"].as_array().unwrap().iter();
    rows.filter(|row| row["kind"] != "summary").cloned().collect()
}

/// A line for comparisons: it belongs to no turn.
pub(super) fn line_of(role: &str, text: &str) -> Line {
    Line {
        role: role.to_owned(),
        text: text.to_owned(),
        is_partial: false,
        turn: 0,
        is_answered: false,
        is_inherited: false,
        is_deleted: false,
    }
}

/// Rows as lines that belong to no turn.
pub(super) fn lines(rows: &[Value]) -> Vec<Line> {
    let line = |row: &Value| Line {
        is_partial: row["status"] == "partial",
        ..line_of(row["role"].as_str().unwrap(), row["content"].as_str().unwrap_or_default())
    };
    rows.iter().map(line).collect()
}

/// Rows grouped by turn, with the number of each turn's question.
pub(super) fn in_turns(rows: &[Value]) -> Vec<(usize, &[Value])> {
    let turns = rows.chunk_by(|one, next| one["turn_id"] == next["turn_id"]);
    turns.map(|rows| (number_of(rows[0]["content"].as_str().unwrap()).expect("a question first"), rows)).collect()
}

/// The parts of a line that a client sees.
fn plain(line: &Line) -> (&str, &str, bool) {
    (&line.role, &line.text, line.is_partial)
}

impl ThreadScenario {
    /// Checks that the rows are exactly the expected lines, in order.
    pub(super) fn check_transcript(&self, thread: usize, now: &[Value]) {
        let thread = &self.reference.threads[thread];
        let now = lines(now);
        let (expected, found): (Vec<_>, Vec<_>) =
            (thread.said().into_iter().map(plain).collect(), now.iter().map(plain).collect());
        assert_eq!(found, expected, "{:?}", (&thread.handle, thread.slug));
    }

    pub(super) async fn check_stored_transcript(&self, thread: usize) {
        let now = said(&self.client(thread.is_multiple_of(2)), &self.reference.threads[thread].handle).await;
        self.check_transcript(thread, &now);
    }

    /// The contexts in which the model got a question, without notes of the gateway.
    pub(super) fn shown(&self, number: usize) -> Vec<Vec<Value>> {
        let requests = self.cluster.upstream.requests().into_iter().filter(|request| !is_summary(request));
        let asked = requests.filter(|request| number_of(&request.last_user_text()) == Some(number));
        let own = |request: &Recorded| {
            request.messages().iter().filter(|message| !is_gateway_note(message)).cloned().collect()
        };
        asked.map(|request| own(&request)).collect()
    }

    /// Checks each context of a question: it is the whole history before it. Or it is a summary, or the note in place
    /// of one, followed by the end of that history.
    pub(super) fn check_contexts(&self, number: usize, before: &[Line]) {
        let history: Vec<(&str, &str)> = before
            .iter()
            .filter(|line| !line.is_deleted && !line.is_partial)
            .map(|line| (line.role.as_str(), line.text.as_str()))
            .collect();
        for context in self.shown(number) {
            let (question, shown) = context.split_last().expect("a question");
            assert_eq!(number_of(question["content"].as_str().unwrap()), Some(number), "{context:?}");
            let shown: Vec<(&str, &str)> = shown
                .iter()
                .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
                .collect();
            let beginnings = ["[Summary of the conv", "[Earlier messages of this conv"];
            let is_base = |text: &str| beginnings.iter().any(|beginning| text.starts_with(beginning));
            let Some((_, kept)) = shown.split_first().filter(|(first, _)| is_base(first.1)) else {
                assert_eq!(shown, history, "before text {number}");
                continue;
            };
            let is_end = history.ends_with(kept);
            let is_carried = kept.split_first().is_some_and(|(carried, rest)| {
                let earlier = &history[..history.len().saturating_sub(rest.len())];
                carried.0 == "user" && history.ends_with(rest) && earlier.contains(carried)
            });
            assert!(is_end || is_carried, "before text {number}: {shown:#?} of {history:#?}");
        }
    }

    /// Checks the lists, the names, the transcripts, the items, the responses and the runs.
    pub(super) async fn check_invariants(&self) {
        let mut listed = self.handles().await;
        let alive = self.reference.threads.iter().filter(|thread| thread.is_alive);
        let mut expected: Vec<String> = alive.map(|thread| thread.handle.clone()).collect();
        listed.sort();
        expected.sort();
        assert_eq!(listed, expected, "each conversation is listed once");
        for slug in SLUGS {
            let handle = self.reference.of_slug(slug).map(|thread| self.reference.threads[thread].handle.as_str());
            self.check_name(slug, handle).await;
        }
        for (name, thread) in &self.reference.sessions {
            let thread = &self.reference.threads[*thread];
            self.check_name(name, Some(thread.handle.as_str()).filter(|_| thread.is_alive)).await;
        }
        for (number, thread) in self.reference.threads.iter().enumerate() {
            self.check_name(&thread.handle, Some(thread.handle.as_str()).filter(|_| thread.is_alive)).await;
            if thread.is_alive {
                self.check_stored_transcript(number).await;
                self.check_items(number).await;
            }
        }
        for record in &self.reference.records {
            self.check_record(record).await;
        }
    }

    async fn check_name(&self, name: &str, handle: Option<&str>) {
        for second in [false, true] {
            let by_session = self.client(second).get(&format!("/api/sessions/{name}")).await;
            let by_conversation = self.client(second).get(&format!("/v1/conversations/{name}")).await;
            let found = [&by_session.json()["conversation_id"], &by_conversation.json()["id"]]
                .map(|id| id.as_str().map(str::to_owned));
            assert_eq!(found, [handle.map(str::to_owned), handle.map(str::to_owned)], "{name}");
            let status = if handle.is_some() { 200 } else { 404 };
            assert_eq!((by_session.status, by_conversation.status), (status, status), "{name}");
        }
    }

    async fn check_items(&self, thread: usize) {
        let thread = &self.reference.threads[thread];
        let items =
            rows(&self.client(true), &format!("/v1/conversations/{}/items?order=asc&limit=100", thread.handle)).await;
        let texts: Vec<&str> = items.iter().map(|item| item["content"][0]["text"].as_str().unwrap()).collect();
        let said = thread.said();
        assert_eq!(texts, said.iter().map(|line| line.text.as_str()).collect::<Vec<_>>());
    }

    /// Checks that a response or a run has not changed, or that it answers 404 if it was deleted.
    async fn check_record(&self, record: &Record) {
        let thread = &self.reference.threads[record.thread];
        let path = path(record.api, &record.id);
        let client = self.client(record.turn.is_multiple_of(2));
        let answer = client.get(&path).await;
        if !record.is_kept || !thread.is_alive {
            answer.expect(404);
            return;
        }
        let object = answer.expect(200);
        assert_eq!(object["status"] == "completed", record.is_completed, "{object}");
        let of_turn: Vec<&Line> = thread.lines.iter().filter(|line| line.turn == record.turn).collect();
        let last = of_turn.iter().find(|line| line.role == "assistant" && !line.is_deleted);
        let text = if record.api == Api::Run { object["output"].as_str().map(str::to_owned) } else { text_of(&object) };
        assert_eq!(text.filter(|text| !text.is_empty()).as_deref(), last.map(|line| line.text.as_str()), "{object}");
        if record.api == Api::Run {
            return;
        }
        let items = rows(&client, &format!("{path}/input_items")).await;
        let asked: Vec<&str> = items.iter().map(|item| item["content"][0]["text"].as_str().unwrap()).collect();
        let input = of_turn.iter().filter(|line| line.role == "user" && !line.is_deleted);
        let input: Vec<&str> = input.map(|line| line.text.as_str()).collect();
        assert_eq!(asked, input, "{record:?}");
        if let Some(frames) = record.frames.as_ref().filter(|_| of_turn.iter().all(|line| !line.is_deleted)) {
            let again = client.get_stream(&format!("{path}?stream=true")).await.rest().await;
            let again: Vec<String> =
                again.into_iter().filter(|event| event.comment.is_empty()).map(|event| event.data).collect();
            assert_eq!(&again, frames, "{}", record.id);
        }
    }

    /// Checks that no turn runs or waits, and that no lease is held.
    pub(super) async fn check_settled(&self) {
        self.cluster.stored().until_settled().await;
    }
}

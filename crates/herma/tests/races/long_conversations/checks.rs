//! What a client sees of a conversation, and the invariants that it must keep.

use herma_testkit::Client;
use serde_json::{Value, json};

use super::WINDOW;
use super::model::tokens;
use super::scenario::LongScenario;
use super::steps::History;
use crate::long::{chain, is_gateway_note, is_omission_note, is_summary, rows};

/// How a request ended.
#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// A complete answer, and the session ids that came with it. The last id is the head.
    Answered { answer: Value, ids: Vec<String> },
    /// The turn failed with this error.
    Failed(String),
    /// The request was refused with this error. Nothing is stored.
    Refused(String),
    /// The process died.
    Lost,
}

impl Outcome {
    pub(super) fn of_answer(status: u16, body: &Value, told: Option<&str>) -> Self {
        if status != 200 {
            return Self::of_error(&body["error"]);
        }
        let head = body["session"]["session_id"].as_str().map(str::to_owned);
        assert_eq!(told, head.as_deref(), "the header names the head");
        Self::Answered { answer: body["choices"][0]["message"].clone(), ids: head.into_iter().collect() }
    }

    pub(super) fn of_stream(text: &str, told: Option<String>) -> Self {
        let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
        let chunks: Vec<Value> = data.filter_map(|data| serde_json::from_str(data).ok()).collect();
        if let Some(failed) = chunks.iter().find(|chunk| !chunk["error"].is_null()) {
            return Self::of_error(&failed["error"]);
        }
        let Some(last) = chunks.iter().find(|chunk| !chunk["choices"][0]["finish_reason"].is_null()) else {
            return Self::Lost;
        };
        let shown = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
        let head = last["session"]["session_id"].as_str().map(str::to_owned);
        let answer = json!({"role": "assistant", "content": shown.collect::<String>()});
        Self::Answered { answer, ids: told.into_iter().chain(head).collect() }
    }

    fn of_error(error: &Value) -> Self {
        match error["code"].as_str().unwrap_or_default() {
            "context_length_exceeded" => Self::Refused(error["message"].to_string()),
            code => Self::Failed(format!("{code}: {}", error["message"])),
        }
    }
}

/// The content of a message; null becomes the empty string.
pub(super) fn content(message: &Value) -> Value {
    match &message["content"] {
        Value::Null => json!(""),
        other => other.clone(),
    }
}

/// A row without the fields that may change later.
fn unchanging(row: &Value) -> Value {
    let mut row = row.clone();
    let fields = row.as_object_mut().expect("a row");
    fields.retain(|name, _| name != "turn_status" && name != "pinned");
    row
}

/// All that a client can read of `trip` at one moment.
pub(super) struct Observation {
    row: Value,
    pub(super) sessions: Vec<String>,
    ledger: Vec<Value>,
    full: Vec<Value>,
    pub(super) said: Vec<Value>,
    model: Vec<Value>,
}

impl Observation {
    pub(super) async fn of(client: &Client) -> Self {
        let row = client.get("/api/sessions/trip").await.expect(200);
        let full = client.get("/api/sessions/trip/messages?limit=200").await.expect(200);
        assert_eq!(full["has_more"], false);
        let full = full["data"].as_array().unwrap().clone();
        Self {
            sessions: chain(client, row["id"].as_str().unwrap()).await,
            ledger: rows(client, "/api/sessions/trip/compactions?limit=200").await,
            said: full.iter().filter(|row| row["kind"] != "summary").cloned().collect(),
            model: rows(client, "/api/sessions/trip/messages?view=model&limit=200").await,
            full,
            row,
        }
    }

    /// The compaction base: the newest compaction that was not undone.
    pub(super) fn base(&self) -> Option<&Value> {
        self.compactions().find(|row| row["outcome"] == "applied" || row["outcome"] == "trimmed")
    }

    /// The compactions that did not fail, the newest first.
    fn compactions(&self) -> impl Iterator<Item = &Value> {
        self.ledger.iter().filter(|row| row["action"] == "compact" && row["outcome"] != "failed")
    }

    /// The tool calls of the last message.
    pub(super) fn open_calls(&self) -> Vec<String> {
        let calls = self.said.last().and_then(|row| row["tool_calls"].as_array());
        calls.into_iter().flatten().map(|call| call["id"].as_str().unwrap().to_owned()).collect()
    }

    /// The messages that a client with its own copy of the conversation would send.
    pub(super) fn history(&self, wanted: History) -> Vec<Value> {
        let kept = self.said.iter().filter(|row| match wanted {
            History::None => false,
            History::Whole => row["status"] == "complete",
            History::Answered => row["status"] == "complete" && row["turn_status"].is_null(),
        });
        kept.map(as_message).collect()
    }

    /// What the ledger says the model is shown, without notes of the gateway.
    fn expected_context(&self) -> Vec<Value> {
        let mut shown = vec![json!({"role": "system", "content": "Be brief."})];
        let (mut through, mut carried) = (0, Vec::new());
        if let Some(base) = self.base() {
            shown.push(json!({"role": "user", "content": base["summary"]}));
            through = base["range"]["last_seq"].as_i64().unwrap();
            carried = base["carried"].as_array().unwrap().clone();
        }
        let complete = self.said.iter().filter(|row| row["status"] == "complete");
        let kept = complete.filter(|row| row["seq"].as_i64() > Some(through) || carried.contains(&row["seq"]));
        shown.extend(kept.map(as_message));
        shown
    }
}

/// The message that a row stores.
fn as_message(row: &Value) -> Value {
    let fields = row.as_object().unwrap().iter();
    let own = ["role", "content", "tool_calls", "tool_call_id"];
    fields.filter(|(name, _)| own.contains(&name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl LongScenario {
    /// Checks all that must hold after every step.
    pub(super) async fn check_invariants(&self, now: &Observation) {
        let [listed] = &self.conversations().await[..] else { panic!("the conversation is listed once") };
        assert_eq!((&listed["id"], &listed["provenance"]), (&now.row["id"], &now.row["provenance"]));
        let of_sessions = self.ids.iter().filter(|id| !id.starts_with("conv_"));
        assert!(of_sessions.clone().all(|id| now.sessions.contains(id)), "{:?} and {:?}", self.ids, now.sessions);
        let by_handle = self.client(false).get(&format!("/api/sessions/{}", self.ids[1])).await.expect(200);
        assert_eq!((&by_handle["id"], &by_handle["provenance"]), (&now.row["id"], &now.row["provenance"]));
        self.check_ledger(now);
        self.check_rows_unchanged(now);
        check_tool_pairs(&now.model);
        let shown: Vec<Value> = now.model.iter().filter(|message| !is_gateway_note(message)).cloned().collect();
        assert_eq!(shown, now.expected_context(), "the model view is what the ledger says");
        let calls = self.cluster.upstream.requests().into_iter().filter(|request| !is_summary(request));
        for call in calls {
            check_tool_pairs(call.messages());
            let is_own = |message: &&Value| is_gateway_note(message) || is_omission_note(message);
            let own = call.messages().iter().filter(is_own).count() as u64;
            let size = tokens(call.messages());
            assert!(size <= WINDOW + 30 * own, "a context of {size} tokens");
        }
    }

    fn check_ledger(&self, now: &Observation) {
        let compactions: Vec<&Value> = now.compactions().collect();
        let provenance = &now.row["provenance"];
        assert_eq!(provenance["compaction_count"], compactions.len());
        assert_eq!(provenance.get("compaction_mode"), compactions.first().map(|row| &row["mode"]));
        let splits = compactions.iter().filter(|row| row["mode"] == "split").count();
        assert_eq!((now.sessions.len(), &provenance["compression_depth"]), (splits + 1, &json!(splits)));
        let mut summaries = now.full.iter().filter(|row| row["kind"] == "summary");
        assert!(
            compactions
                .iter()
                .rev()
                .all(|row| summaries.next().map(|summary| &summary["compaction_id"]) == Some(&row["id"]))
        );
        assert!(summaries.next().is_none(), "a summary that no compaction wrote");
        let undone = now.ledger.iter().filter(|row| row["outcome"] == "undone");
        let mut undoes: Vec<&Value> =
            now.ledger.iter().filter(|row| row["action"] == "undo").map(|row| &row["undoes"]).collect();
        assert_eq!(undone.clone().count(), undoes.len());
        undoes.retain(|id| !undone.clone().any(|row| row["id"] == **id));
        assert!(undoes.is_empty(), "{undoes:?}");
    }

    /// Places rise, ids are unique, and all rows that were read before are unchanged.
    fn check_rows_unchanged(&self, now: &Observation) {
        let seqs: Vec<Option<i64>> = now.full.iter().map(|row| row["seq"].as_i64()).collect();
        assert!(seqs.is_sorted_by(|one, next| one < next), "{seqs:?}");
        let mut ids: Vec<&str> = now.full.iter().filter_map(|row| row["id"].as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), now.full.len());
        assert!(now.full.len() >= self.observed.full.len());
        for (before, after) in self.observed.full.iter().zip(&now.full) {
            assert_eq!(unchanging(before), unchanging(after));
        }
    }

    /// The messages since the last observation, without the partial answer of a turn that was lost with its process.
    fn since<'a>(&self, now: &'a Observation) -> &'a [Value] {
        let new = &now.said[self.observed.said.len()..];
        let lost = self.observed.said.last().filter(|_| self.lost).map(|row| &row["turn_id"]);
        match new.split_first() {
            Some((first, rest)) if first["status"] == "partial" && Some(&first["turn_id"]) == lost => rest,
            _ => new,
        }
    }

    pub(super) fn check_nothing_added(&self, now: &Observation) {
        assert!(self.since(now).is_empty(), "{:?}", self.since(now));
    }

    /// Exactly one turn was added, as its client saw it.
    pub(super) fn check_turn_added(&self, now: &Observation, new: &[Value], outcome: &Outcome) {
        let is_stored = self.unanswered.as_deref() == Some(new);
        check_turn_rows(self.since(now), if is_stored { &[] } else { new }, outcome);
    }

    /// Exactly these turns were added, one after the other.
    pub(super) fn check_turns_added(&self, now: &Observation, inputs: &[Vec<Value>], outcomes: &[Outcome]) {
        let turns: Vec<&[Value]> = self.since(now).chunk_by(|one, next| one["turn_id"] == next["turn_id"]).collect();
        let mut found = 0;
        for (new, outcome) in inputs.iter().zip(outcomes) {
            let said: Vec<_> = turns.iter().filter(|turn| content(&turn[0]) == content(&new[0])).collect();
            assert!(said.len() <= 1, "{new:?} was said more than once");
            check_turn_rows(said.first().map_or(&[], |turn| turn), new, outcome);
            found += said.len();
        }
        assert_eq!(found, turns.len(), "a turn that no client sent");
    }

    /// The answer, or the last chunk of a stream, names the head.
    pub(super) fn check_head(&self, now: &Observation, outcome: &Outcome) {
        if let Outcome::Answered { ids, .. } = outcome {
            assert_eq!(ids.last().map(String::as_str), now.row["id"].as_str());
            assert!(ids.iter().all(|id| now.sessions.contains(id)), "{ids:?}");
        }
    }

    /// The context of the last model call is the model view up to the turn's answer.
    pub(super) fn check_context(&self, now: &Observation, outcome: &Outcome) {
        if matches!(outcome, Outcome::Refused(_) | Outcome::Lost) {
            return;
        }
        let requests = self.cluster.upstream.requests();
        let call = requests.iter().rfind(|request| !is_summary(request)).expect("a call");
        let sent = call.messages().len();
        assert!(sent < now.model.len(), "the view ends with the answer of the turn");
        assert_eq!(call.messages(), &now.model[..sent]);
        assert_eq!(now.model[sent]["role"], "assistant");
        assert!(now.model[sent + 1..].iter().all(is_gateway_note), "{:?}", &now.model[sent..]);
        assert!(tokens(&now.model) <= WINDOW + 200, "a view of {} tokens", tokens(&now.model));
    }
}

/// Checks that a turn with this input and this outcome left exactly these rows.
fn check_turn_rows(rows: &[Value], new: &[Value], outcome: &Outcome) {
    let messages: Vec<Value> = rows.iter().map(as_message).collect();
    let has_input = messages.starts_with(new);
    match outcome {
        Outcome::Refused(_) => assert!(rows.is_empty(), "a refused turn left {rows:?}"),
        Outcome::Answered { answer, .. } => {
            assert!(has_input && rows.len() == new.len() + 1, "{new:?} {outcome:?} left {rows:?}");
            let last = &rows[new.len()];
            assert_eq!((&last["role"], &last["status"]), (&json!("assistant"), &json!("complete")));
            assert_eq!(content(last), content(answer), "the stored answer is the streamed answer");
        }
        Outcome::Failed(_) => {
            assert!(has_input && rows.len() <= new.len() + 1, "{new:?} {outcome:?} left {rows:?}");
            assert!(rows[new.len()..].iter().all(|row| row["status"] == "partial"), "{rows:?}");
        }
        Outcome::Lost => {
            assert!(rows.is_empty() || has_input, "{new:?} {outcome:?} left {rows:?}");
            let rest = rows.get(new.len()..).unwrap_or_default();
            assert!(rest.len() <= 1 && rest.iter().all(|row| row["role"] == "assistant"), "{rows:?}");
        }
    }
}

/// Every tool call has its results right after it, and every result has a call.
fn check_tool_pairs(messages: &[Value]) {
    let mut open: Vec<&Value> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let at = open.iter().position(|call| **call == message["tool_call_id"]);
            open.remove(at.unwrap_or_else(|| panic!("{message} answers no call in {messages:?}")));
        } else {
            assert!(open.is_empty(), "{open:?} have no result in {messages:?}");
            open = message["tool_calls"].as_array().into_iter().flatten().map(|call| &call["id"]).collect();
        }
    }
    assert!(open.is_empty(), "{open:?} have no result in {messages:?}");
}

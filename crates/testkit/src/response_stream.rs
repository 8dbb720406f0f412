//! Checks any stream of a response against the rules of the Open Responses specification.
//!
//! Herma breaks two rules on purpose when a response is `failed` or `cancelled`. A tool call that was not finished
//! gets no end event. A message that was streamed in part is `incomplete` in the output. The check requires both.
//!
//! Calls of Herma's own tools (`mcp_call`) follow OpenAI's rules: they may end as `failed`, in any order.

use serde_json::Value;

/// Fields that every response has.
pub const RESPONSE_FIELDS: [&str; 31] = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
];

/// Fails the test if the events are not all events of one response.
pub fn check_response_stream(events: &[Value]) {
    let broken = broken_rules(events);
    assert!(broken.is_empty(), "{broken:#?} in {events:#?}");
}

/// The rules that the events break, in the order of the events.
pub fn broken_rules(events: &[Value]) -> Vec<String> {
    let mut stream = Stream::default();
    for (number, event) in events.iter().enumerate() {
        stream.take(number, event);
    }
    if stream.ended != 1 {
        stream.report(format!("{} events end the response", stream.ended));
    }
    stream.broken
}

/// An item as the events so far show it.
struct Item {
    shown: Value,
    parts: Vec<Part>,
    is_open: bool,
}

/// A text, a refusal, a part of a summary, or the arguments of a call.
struct Part {
    text: String,
    /// Whether the event with the whole text has come.
    is_whole: bool,
    is_open: bool,
}

#[derive(Default)]
struct Stream {
    items: Vec<Item>,
    ended: usize,
    at: usize,
    broken: Vec<String>,
}

impl Stream {
    fn report(&mut self, rule: impl Into<String>) {
        self.broken.push(format!("{}: {}", self.at, rule.into()));
    }

    fn require(&mut self, holds: bool, rule: &str) {
        if !holds {
            self.report(rule);
        }
    }

    fn take(&mut self, number: usize, event: &Value) {
        self.at = number;
        self.require(event["sequence_number"] == number, "events are numbered from 0 on without a gap");
        self.require(self.ended == 0, "nothing follows the end");
        let kind = event["type"].as_str().unwrap_or_default();
        self.require(
            (number == 0) == (kind == "response.created"),
            "response.created is the first event and comes once",
        );
        if event.get("response").is_some() {
            return self.response(kind, &event["response"]);
        }
        if kind == "response.output_item.added" {
            return self.item_added(event);
        }
        let Some(at) = self.item_of(event) else {
            return self.report("output_index and item_id name an item that is open");
        };
        let part = ["content_index", "summary_index"].iter().find_map(|name| event[name].as_u64()).unwrap_or_default();
        match kind {
            "response.output_item.done" => self.item_done(at, &event["item"]),
            "response.content_part.added" | "response.reasoning_summary_part.added" => self.part_added(at, part, event),
            "response.content_part.done" | "response.reasoning_summary_part.done" => self.part_done(at, part, event),
            "response.mcp_call.in_progress" | "response.mcp_call.completed" | "response.mcp_call.failed" => {
                self.require(self.items[at].shown["type"] == "mcp_call", "only an mcp_call has these events");
            }
            _ if kind.ends_with(".delta") => self.delta(at, part, event),
            _ if kind.ends_with(".done") => self.text_done(at, part, event),
            _ => self.report(format!("{kind:?} is an event of the specification")),
        }
    }

    /// The open item that an event is about.
    fn item_of(&self, event: &Value) -> Option<usize> {
        let at = usize::try_from(event["output_index"].as_u64()?).ok()?;
        let item = self.items.get(at).filter(|item| item.is_open)?;
        let id = event.get("item_id").unwrap_or(&event["item"]["id"]);
        (*id == item.shown["id"]).then_some(at)
    }

    fn item_added(&mut self, event: &Value) {
        let (item, place) = (&event["item"], self.items.len());
        self.require(event["output_index"] == place, "items are added one after the other");
        self.require(item["type"].is_string() && item["id"].is_string(), "an item has a type and an id");
        self.require(item["status"] == "in_progress", "an item begins in progress");
        let is_new = self.items.iter().all(|other| other.shown["id"] != item["id"]);
        self.require(is_new, "an item has an id of its own");
        let mut parts = Vec::new();
        if is_call(item) {
            self.require(text_of(item) == Some(""), "arguments, or the text of a custom tool, begin empty");
            parts.push(Part { text: String::new(), is_whole: false, is_open: true });
        }
        self.items.push(Item { shown: item.clone(), parts, is_open: true });
    }

    fn part_added(&mut self, at: usize, part: u64, event: &Value) {
        let parts = &self.items[at].parts;
        let is_next = parts.len() as u64 == part && parts.iter().all(|part| !part.is_open);
        self.require(is_next, "parts are added one after the other");
        self.require(text_of(&event["part"]) == Some(""), "a part begins empty");
        self.items[at].parts.push(Part { text: String::new(), is_whole: false, is_open: true });
    }

    /// The open part that an event is about. Reports a broken rule if that part is not open.
    fn open_part(&mut self, at: usize, part: u64) -> Option<&mut Part> {
        let last = (self.items[at].parts.len() as u64).checked_sub(1);
        let open = self.items[at].parts.last_mut().filter(|open| open.is_open && last == Some(part));
        if open.is_none() {
            self.broken.push(format!("{}: a delta or text belongs to an open part", self.at));
        }
        open
    }

    fn delta(&mut self, at: usize, part: u64, event: &Value) {
        let delta = event["delta"].as_str().unwrap_or_default();
        self.require(!delta.is_empty(), "a delta is not empty");
        let Some(part) = self.open_part(at, part) else { return };
        part.text.push_str(delta);
        let is_late = part.is_whole;
        self.require(!is_late, "no delta follows the whole text");
    }

    fn text_done(&mut self, at: usize, part: u64, event: &Value) {
        let Some(part) = self.open_part(at, part) else { return };
        let is_same = text_of(event) == Some(&part.text);
        let was_whole = std::mem::replace(&mut part.is_whole, true);
        self.require(is_same, "deltas make up the whole text");
        self.require(!was_whole, "the whole text comes once");
    }

    fn part_done(&mut self, at: usize, part: u64, event: &Value) {
        let Some(part) = self.open_part(at, part) else { return };
        let is_same = text_of(&event["part"]) == Some(&part.text) && part.is_whole;
        part.is_open = false;
        self.require(is_same, "a part ends after the event with its whole text, and has that text");
    }

    fn item_done(&mut self, at: usize, item: &Value) {
        let parts = &self.items[at].parts;
        let is_call = is_call(item);
        let is_over = parts.iter().all(|part| part.is_whole && part.is_open == is_call);
        let texts: Vec<&str> =
            match (text_of(item).filter(|_| is_call), item["content"].as_array(), item["summary"].as_array()) {
                (Some(arguments), ..) => vec![arguments],
                (_, Some(parts), _) | (_, _, Some(parts)) => parts.iter().filter_map(text_of).collect(),
                _ => Vec::new(),
            };
        let is_same = texts.iter().eq(parts.iter().map(|part| &part.text));
        self.require(is_over, "parts end before their item");
        self.require(is_same, "an item ends with the texts of all its parts");
        self.require(item["type"] == self.items[at].shown["type"], "an item keeps its type");
        let has_failed = item["type"] == "mcp_call" && status(item) == "failed";
        let has_ended = has_failed || matches!(status(item), "completed" | "incomplete");
        self.require(has_ended, "an item ends completed or incomplete");
        self.items[at].shown = item.clone();
        self.items[at].is_open = false;
    }

    fn response(&mut self, kind: &str, response: &Value) {
        for name in RESPONSE_FIELDS {
            self.require(response.get(name).is_some(), &format!("a response has {name}"));
        }
        let allowed: &[&str] = match kind {
            "response.created" => &["queued", "in_progress"],
            "response.queued" => &["queued"],
            "response.in_progress" => &["in_progress"],
            "response.completed" => &["completed"],
            "response.incomplete" => &["incomplete"],
            "response.failed" => &["failed", "cancelled"],
            _ => &[],
        };
        self.require(allowed.contains(&status(response)), "the status of a response is that of its event");
        self.require(response["error"].is_object() == (kind == "response.failed"), "a failed response has an error");
        let has_details = response["incomplete_details"]["reason"].is_string();
        self.require(has_details == (kind == "response.incomplete"), "an incomplete response says why");
        self.require(
            response["completed_at"].is_u64() == (kind == "response.completed"),
            "only a completed response has completed_at",
        );
        if matches!(kind, "response.completed" | "response.incomplete" | "response.failed") {
            self.ended += 1;
            self.end(kind, response);
        }
    }

    fn end(&mut self, kind: &str, response: &Value) {
        let output = response["output"].as_array().cloned().unwrap_or_default();
        let is_failed = kind == "response.failed";
        let open: Vec<&Item> = self.items.iter().filter(|item| item.is_open).collect();
        let is_closed = open.iter().all(|item| is_failed && is_clients_call(&item.shown));
        // What was said before the last call of Herma's own tools is stored, whatever follows.
        let stored = self.items.iter().rposition(|item| item.shown["type"] == "mcp_call").map_or(0, |at| at + 1);
        let is_in_output = |(at, item): &(usize, &Item)| {
            let kind = item.shown["type"].as_str();
            !is_failed || *at < stored || matches!(kind, Some("message" | "compaction"))
        };
        let shown = self.items.iter().enumerate().filter(is_in_output).map(|(_, item)| item.shown.clone());
        let mut shown: Vec<Value> = shown.collect();
        if is_failed && let Some(last) = shown.last_mut().filter(|last| last["type"] == "message") {
            last["status"] = "incomplete".into();
        }
        let is_whole = |item: &Value| status(item) == "completed" || item["type"] == "mcp_call";
        let last = output.last().map_or("", status);
        let is_last = output.iter().rev().skip(1).all(is_whole);
        self.require(is_closed, "every item that was added has ended");
        self.require(output == shown, "the output has the streamed items");
        self.require(is_last, "only the last item can be incomplete");
        self.require(
            kind != "response.completed" || matches!(last, "completed" | "failed" | ""),
            "the last item of a completed response is completed",
        );
        self.require(
            kind != "response.incomplete" || matches!(last, "incomplete" | ""),
            "the last item of an incomplete response is incomplete",
        );
    }
}

fn is_call(item: &Value) -> bool {
    is_clients_call(item) || item["type"] == "mcp_call"
}

fn is_clients_call(item: &Value) -> bool {
    item["type"] == "function_call" || item["type"] == "custom_tool_call"
}

fn status(object: &Value) -> &str {
    object["status"].as_str().unwrap_or_default()
}

/// The text of a part, or of an event that has a whole text.
fn text_of(part: &Value) -> Option<&str> {
    ["text", "refusal", "arguments", "input"].iter().find_map(|name| part[name].as_str())
}

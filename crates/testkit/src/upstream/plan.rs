//! Translates a reply into the steps that the server takes. Pure: all decisions are here, none in the server.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::recorded::Recorded;
use super::reply::{Completion, Ending, Pace, Reply, envelope};
use super::wire::{Wire, frame};
use crate::Gate;

/// How the server treats a request, from before the head of the answer on.
#[derive(Debug)]
pub(super) enum Plan {
    /// Wait at a gate, then follow the rest.
    Hold(Gate, Box<Plan>),
    /// Never answer.
    Hang,
    /// Close the connection.
    Close,
    /// Send a head, then take the steps of the body.
    Answer(Head, Vec<Step>),
}

/// Status and headers of an answer.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) headers: Vec<(String, String)>,
}

/// One step of a body.
#[derive(Debug)]
pub(super) enum Step {
    Write(Bytes),
    Pause(Duration),
    Pass(Gate),
    Cut,
    Hang,
}

/// Turns the reply to the `number`th request into steps.
pub(super) fn plan(reply: Reply, request: &Recorded, number: usize) -> Plan {
    let wire = Wire { model: request.model(), number };
    match reply {
        Reply::Echo => {
            let echo = Completion::text(format!("reply to: {}", request.last_user_text()));
            plan(Reply::Completion(echo), request, number)
        }
        Reply::Completion(completion) if request.wants_stream() => {
            Plan::Answer(ok("text/event-stream"), streamed(&completion, request, &wire))
        }
        Reply::Completion(completion) => whole(&completion, request, &wire),
        Reply::Status { code, body, headers } => {
            let head = Head { status: code, content_type: "application/json", headers };
            Plan::Answer(head, vec![Step::Write(Bytes::from(body.to_string()))])
        }
        Reply::Garbage(bytes) => {
            let kind = if request.wants_stream() { "text/event-stream" } else { "application/json" };
            Plan::Answer(ok(kind), vec![Step::Write(bytes)])
        }
        Reply::Hang => Plan::Hang,
        Reply::CloseBeforeHeaders => Plan::Close,
        Reply::Held(gate, reply) => Plan::Hold(gate, Box::new(plan(*reply, request, number))),
    }
}

fn ok(content_type: &'static str) -> Head {
    Head { status: 200, content_type, headers: Vec::new() }
}

fn streamed(completion: &Completion, request: &Recorded, wire: &Wire<'_>) -> Vec<Step> {
    let mut steps = vec![Step::Write(wire.delta(&json!({"role": "assistant", "content": ""})))];
    let count = match completion.ending {
        Ending::Complete => completion.texts.len(),
        Ending::CutOffAfter(count) | Ending::HangAfter(count) | Ending::ErrorAfter(count, _) => count,
    };
    for text in completion.texts.iter().take(count) {
        steps.extend(wait(&completion.pace));
        steps.push(Step::Write(wire.delta(&json!({"content": text}))));
    }
    match &completion.ending {
        Ending::Complete => {}
        Ending::CutOffAfter(_) => steps.push(Step::Cut),
        Ending::HangAfter(_) => steps.push(Step::Hang),
        Ending::ErrorAfter(_, message) => {
            steps.push(Step::Write(frame(&envelope(message, "server_error", None).to_string())));
        }
    }
    if !matches!(completion.ending, Ending::Complete) {
        return steps;
    }
    for (index, call) in completion.calls.iter().enumerate() {
        steps.extend(wire.call(index, call).into_iter().map(Step::Write));
    }
    steps.push(Step::Write(wire.finish(completion)));
    if request.wants_usage() {
        steps.push(Step::Write(wire.usage(completion, request)));
    }
    steps.push(Step::Write(frame("[DONE]")));
    steps
}

fn whole(completion: &Completion, request: &Recorded, wire: &Wire<'_>) -> Plan {
    let mut steps: Vec<Step> = completion.texts.iter().filter_map(|_| wait(&completion.pace)).collect();
    let mut body = wire.completion(completion, request);
    match &completion.ending {
        Ending::Complete => steps.push(Step::Write(body)),
        Ending::CutOffAfter(_) => steps.extend([Step::Write(body.split_to(body.len() / 2)), Step::Cut]),
        Ending::HangAfter(_) => steps.extend([Step::Write(body.split_to(body.len() / 2)), Step::Hang]),
        Ending::ErrorAfter(_, message) => {
            let error = envelope(message, "server_error", None).to_string();
            steps.push(Step::Write(Bytes::from(error)));
            let head = Head { status: 500, content_type: "application/json", headers: Vec::new() };
            return Plan::Answer(head, steps);
        }
    }
    Plan::Answer(ok("application/json"), steps)
}

fn wait(pace: &Pace) -> Option<Step> {
    match pace {
        Pace::AtOnce => None,
        Pace::Every(pause) => Some(Step::Pause(*pause)),
        Pace::Gated(gate) => Some(Step::Pass(gate.clone())),
    }
}

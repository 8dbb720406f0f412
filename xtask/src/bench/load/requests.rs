//! What clients send, built before anything is timed.

use bytes::Bytes;

use super::{KEY, Plan, Shape};
use crate::bench::field::Target;
use crate::bench::servers::upstream::PAUSE;

/// About as long as what a person types in a chat.
pub(in crate::bench) const USER_TEXT: &str =
    "Please look at the third paragraph again and tell me, in your own words, what it leaves open.";
const ASSISTANT_TEXT: &str =
    "It leaves open who decides when two of them disagree, and what becomes of the work that was already done.";

/// The requests of one session: the one that gives it its history, where the server keeps it, and a turn.
#[derive(Debug, Clone)]
pub(super) struct Session {
    /// Sent once, untimed.
    pub(super) opening: Bytes,
    /// Sent for each measured turn.
    pub(super) turn: Bytes,
}

impl Session {
    /// Builds them for a target that keeps the history or one that must be sent it each time.
    pub(super) fn new(target: Target, plan: &Plan, name: &str) -> Self {
        let spoken = messages(plan.history, plan.shape);
        let (whole, newest) = (spoken.join(","), spoken.last().cloned().unwrap_or_default());
        // The answer to the opening completes the history.
        let before = spoken[..spoken.len().saturating_sub(2)].join(",");
        if target.keeps_history() {
            Self { opening: chat(name, &before, plan.shape), turn: chat(name, &newest, plan.shape) }
        } else {
            let turn = chat(name, &whole, plan.shape);
            Self { opening: turn.clone(), turn }
        }
    }
}

/// A history of this many messages, and the next user message.
fn messages(history: usize, shape: Shape) -> Vec<String> {
    let mark = if shape == (Shape::Streamed { pause: true }) { PAUSE } else { "" };
    let message = |index: usize| {
        let (role, text) = if index.is_multiple_of(2) { ("user", USER_TEXT) } else { ("assistant", ASSISTANT_TEXT) };
        format!(r#"{{"role":"{role}","content":"{mark}{index}. {text}"}}"#)
    };
    (0..=history).map(message).collect()
}

fn chat(session: &str, messages: &str, shape: Shape) -> Bytes {
    let stream = if shape == Shape::Whole { "" } else { r#""stream":true,"# };
    post(session, &format!(r#"{{"model":"bench",{stream}"messages":[{messages}]}}"#))
}

/// A chat request of a session with one user message.
pub(in crate::bench) fn ask(session: &str, text: &str, shape: Shape) -> Bytes {
    chat(session, &format!(r#"{{"role":"user","content":"{text}"}}"#), shape)
}

fn post(session: &str, body: &str) -> Bytes {
    request("POST /v1/chat/completions", &format!("x-hermes-session-id: {session}\r\n"), body)
}

/// A request to compact a session now.
pub(in crate::bench) fn compact(session: &str) -> Bytes {
    request(&format!("POST /api/sessions/{session}/compactions"), "", "{}")
}

/// A request for a session's row.
pub(in crate::bench) fn show(session: &str) -> Bytes {
    request(&format!("GET /api/sessions/{session}"), "", "")
}

fn request(line: &str, header: &str, body: &str) -> Bytes {
    let length = body.len();
    Bytes::from(format!(
        "{line} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         authorization: Bearer {KEY}\r\n{header}content-length: {length}\r\n\r\n{body}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(target: Target, history: usize) -> [usize; 2] {
        let plan = Plan { clients: 1, turns: 1, history, shape: Shape::Whole };
        let session = Session::new(target, &plan, "s");
        [session.opening, session.turn].map(|request| {
            let text = String::from_utf8(request.to_vec()).unwrap();
            let (_, body) = text.split_once("\r\n\r\n").unwrap();
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["messages"].as_array().unwrap().last().unwrap()["role"], "user");
            body["messages"].as_array().unwrap().len()
        })
    }

    #[test]
    fn a_server_that_keeps_the_history_gets_it_once() {
        assert_eq!(bodies(Target::Herma, 200), [199, 1]);
        assert_eq!(bodies(Target::Floor, 2), [1, 1]);
    }

    #[test]
    fn a_server_that_does_not_gets_it_each_time() {
        assert_eq!(bodies(Target::Direct, 200), [201, 201]);
        assert_eq!(bodies(Target::Proxy, 2), [3, 3]);
    }
}

//! The requests of the clients, built before the time measurement.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use memchr::memmem;

use super::whole_history::WholeHistory;
use super::{Api, KEY, Plan, Shape, questions};
use crate::bench::http1::Message;
use crate::bench::testbed::Target;

/// As long as a typical chat message.
pub(in crate::bench) const USER_TEXT: &str =
    "Please look at the third paragraph again and tell me, in your own words, what it leaves open.";
const ASSISTANT_TEXT: &str =
    "It leaves open who decides when two of them disagree, and what becomes of the work that was already done.";

/// The requests of one session: an opening that stores the history, if the server keeps it, and a turn.
#[derive(Debug, Clone)]
pub(super) struct Session {
    /// Sent once, not measured. `None` if each turn begins a conversation, or if another client sends it.
    pub(super) opening: Option<Bytes>,
    turn: Turn,
}

/// The request that is sent for each measured turn.
#[derive(Debug, Clone)]
enum Turn {
    /// Always the same.
    Same(Bytes),
    /// It names the response before, at this position.
    Chained { request: Vec<u8>, previous: Range<usize> },
    /// It has the whole history.
    Whole(WholeHistory),
    /// The same with another question each time, at this position.
    Varied { request: Vec<u8>, question: Range<usize> },
    /// It begins a conversation. The text has this number, in a fixed number of digits, at this position.
    First { request: Vec<u8>, number: usize, place: Range<usize> },
}

impl Session {
    /// Builds the requests. A target that does not keep the history gets it with every turn.
    pub(super) fn new(target: Target, plan: &Plan, name: &str) -> Self {
        let spoken = messages(plan.history, plan.shape);
        let (whole, newest) = (spoken.join(","), spoken.last().cloned().unwrap_or_default());
        // The answer to the opening is the last message of the history.
        let before = spoken[..spoken.len().saturating_sub(2)].join(",");
        let (opening, turn) = match plan.api {
            Api::First => return Self { opening: None, turn: Turn::first(name, plan.shape) },
            Api::Chat | Api::Shared if target.keeps_history() => {
                (chat(name, &before, plan.shape), Turn::Same(chat(name, &newest, plan.shape)))
            }
            Api::Chat | Api::Shared => {
                let turn = chat(name, &whole, plan.shape);
                (turn.clone(), Turn::Same(turn))
            }
            Api::Recall | Api::RecallOff => {
                let header = memory_headers(name, plan.api);
                let post =
                    |messages: &str| request("POST /v1/chat/completions", &header, &chat_body(messages, plan.shape));
                (post(&before), Turn::Same(post(&newest)))
            }
            Api::RecallVaried => {
                let header = memory_headers(name, plan.api);
                let post =
                    |text: &str| request("POST /v1/chat/completions", &header, &chat_body(&user(text), plan.shape));
                (post(&questions::next()), Turn::varied(post))
            }
            Api::Slug => {
                let place = format!(r#""conversation":"{name}","#);
                (response(&place, &before, plan.shape), Turn::Same(response(&place, &newest, plan.shape)))
            }
            Api::Chained => {
                let place = format!(r#""previous_response_id":"{NO_RESPONSE}","#);
                (response("", &before, plan.shape), Turn::chained(&response(&place, &newest, plan.shape)))
            }
            Api::Whole | Api::Unnamed => {
                let header = if plan.api == Api::Whole { session_header(name) } else { String::new() };
                let whole = WholeHistory::new(name, &header, plan.history);
                (whole.request(), Turn::Whole(whole))
            }
        };
        Self { opening: Some(opening), turn }
    }

    /// The next turn.
    pub(super) fn turn(&self) -> &[u8] {
        match &self.turn {
            Turn::Same(request) => request,
            Turn::Chained { request, .. } | Turn::Varied { request, .. } | Turn::First { request, .. } => request,
            Turn::Whole(whole) => whole.bytes(),
        }
    }

    /// Makes the next turn, which may have to repeat the answer or to name it.
    pub(super) fn answered(&mut self, answer: &Message) -> io::Result<()> {
        match &mut self.turn {
            Turn::Same(_) => {}
            Turn::Chained { request, previous } => {
                request[previous.clone()].copy_from_slice(response_id(answer)?.as_bytes());
            }
            Turn::Whole(whole) => whole.answered(answer)?,
            Turn::Varied { request, question } => {
                request[question.clone()].copy_from_slice(questions::next().as_bytes());
            }
            Turn::First { request, number, place } => {
                *number += 1;
                request[place.clone()].copy_from_slice(first_number(*number).as_bytes());
            }
        }
        Ok(())
    }
}

impl Turn {
    /// A turn with a placeholder for the response before.
    fn chained(request: &Bytes) -> Self {
        let at = memmem::find(request, NO_RESPONSE.as_bytes()).unwrap_or_default();
        Self::Chained { request: request.to_vec(), previous: at..at + NO_RESPONSE.len() }
    }

    /// A turn with a question that is replaced after each answer.
    fn varied(post: impl Fn(&str) -> Bytes) -> Self {
        let question = questions::next();
        let request = post(&question);
        let at = memmem::rfind(&request, question.as_bytes()).unwrap_or_default();
        Self::Varied { request: request.to_vec(), question: at..at + question.len() }
    }

    /// The name and the number make each text unique: an equal one could be taken for a retry.
    fn first(name: &str, shape: Shape) -> Self {
        let (mark, number) = (shape.mark(), first_number(0));
        let message = format!(r#"{{"role":"user","content":"{mark}{name} {number}. {USER_TEXT}"}}"#);
        let request = request("POST /v1/chat/completions", "", &chat_body(&message, shape));
        let at = memmem::rfind(&request, number.as_bytes()).unwrap_or_default();
        Self::First { request: request.to_vec(), number: 0, place: at..at + number.len() }
    }
}

fn first_number(number: usize) -> String {
    format!("{number:08}")
}

/// A placeholder with the length of a response id.
const NO_RESPONSE: &str = "resp_00000000000000000000000000000000";

/// The id of the response in an answer, whole or streamed.
pub(super) fn response_id(answer: &Message) -> io::Result<String> {
    const ID: &[u8] = br#""id":""#;
    let begins = [ID, b"resp_"].concat();
    let at = memmem::find(answer.body(), &begins).map(|at| at + ID.len());
    let id = at.and_then(|at| answer.body().get(at..at + NO_RESPONSE.len()));
    let id = id.and_then(|id| std::str::from_utf8(id).ok());
    id.map(str::to_owned).ok_or_else(|| io::Error::other("an answer that is no response"))
}

/// A history of this many messages, and one more user message.
fn messages(history: usize, shape: Shape) -> Vec<String> {
    let mark = shape.mark();
    (0..=history).map(|index| message(index, mark)).collect()
}

/// One message of a history. `mark` is the beginning of its text.
pub(super) fn message(index: usize, mark: &str) -> String {
    let (role, text) = if index.is_multiple_of(2) { ("user", USER_TEXT) } else { ("assistant", ASSISTANT_TEXT) };
    format!(r#"{{"role":"{role}","content":"{mark}{index}. {text}"}}"#)
}

fn chat(session: &str, messages: &str, shape: Shape) -> Bytes {
    request("POST /v1/chat/completions", &session_header(session), &chat_body(messages, shape))
}

fn chat_body(messages: &str, shape: Shape) -> String {
    let stream = shape.stream_field();
    format!(r#"{{"model":"bench",{stream}"messages":[{messages}]}}"#)
}

/// A request for a response. `place` is the part of the body that names the conversation.
fn response(place: &str, items: &str, shape: Shape) -> Bytes {
    let stream = shape.stream_field();
    request("POST /v1/responses", "", &format!(r#"{{"model":"bench",{place}{stream}"input":[{items}]}}"#))
}

/// A request for a stored response.
pub(in crate::bench) fn fetch(response: &str) -> Bytes {
    request(&format!("GET /v1/responses/{response}"), "", "")
}

/// A chat request of a session with one user message.
pub(in crate::bench) fn ask(session: &str, text: &str, shape: Shape) -> Bytes {
    chat(session, &user(text), shape)
}

fn user(text: &str) -> String {
    format!(r#"{{"role":"user","content":"{text}"}}"#)
}

/// The session key of turns with memory.
pub(in crate::bench) const MEMORY_KEY: &str = "bench:ann";

fn memory_headers(session: &str, api: Api) -> String {
    let off = if api == Api::RecallOff { "x-hermes-memory: off\r\n" } else { "" };
    format!("{}x-hermes-session-key: {MEMORY_KEY}\r\n{off}", session_header(session))
}

fn session_header(session: &str) -> String {
    format!("x-hermes-session-id: {session}\r\n")
}

/// A request to compact a session now.
pub(in crate::bench) fn compact(session: &str) -> Bytes {
    request(&format!("POST /api/sessions/{session}/compactions"), "", "{}")
}

/// A request for a session's row.
pub(in crate::bench) fn show(session: &str) -> Bytes {
    request(&format!("GET /api/sessions/{session}"), "", "")
}

/// A GET request.
pub(in crate::bench) fn get(path: &str) -> Bytes {
    request(&format!("GET {path}"), "", "")
}

/// A request with a JSON body.
pub(in crate::bench) fn send(method: &str, path: &str, body: &serde_json::Value) -> Bytes {
    request(&format!("{method} {path}"), "", &body.to_string())
}

/// A request. Its length has a fixed number of digits, because [`WholeHistory`] changes it.
pub(super) fn request(line: &str, header: &str, body: &str) -> Bytes {
    let length = content_length(body.len());
    Bytes::from(format!(
        "{line} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         authorization: Bearer {KEY}\r\n{header}content-length: {length}\r\n\r\n{body}"
    ))
}

pub(super) fn content_length(bytes: usize) -> String {
    format!("{bytes:09}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(target: Target, api: Api, history: usize) -> Session {
        let plan = Plan { clients: 1, turns: 1, history, shape: Shape::Whole, api };
        Session::new(target, &plan, "s")
    }

    fn opening(session: &Session) -> &[u8] {
        session.opening.as_ref().unwrap()
    }

    fn body(request: &[u8]) -> serde_json::Value {
        let text = std::str::from_utf8(request).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    fn bodies(target: Target, history: usize) -> [usize; 2] {
        let session = session(target, Api::Chat, history);
        [opening(&session), session.turn()].map(|request| {
            let body = body(request);
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

    #[test]
    fn a_chained_turn_names_the_response_before_it() {
        let mut session = session(Target::Herma, Api::Chained, 2);
        assert!(body(opening(&session)).get("previous_response_id").is_none());
        for id in ["resp_0123456789abcdef0123456789abcdef", "resp_fedcba9876543210fedcba9876543210"] {
            session
                .answered(&Message::of(format!(r#"{{"previous_response_id":"resp_","id":"{id}"}}"#).as_bytes()))
                .unwrap();
            assert_eq!(body(session.turn())["previous_response_id"], id);
        }
        assert!(session.answered(&Message::of(br#"{"id":"chatcmpl-0"}"#)).is_err());
    }

    #[test]
    fn a_whole_history_grows_by_each_answer_and_the_next_message() {
        let [mut named, mut unnamed] = [Api::Whole, Api::Unnamed].map(|api| session(Target::Herma, api, 2));
        for count in [1, 3, 5] {
            let messages = body(unnamed.turn())["messages"].as_array().unwrap().clone();
            assert_eq!(messages.len(), count);
            assert_eq!(messages[count - 1]["role"], "user");
            assert_eq!(body(named.turn()), body(unnamed.turn()));
            let text = std::str::from_utf8(unnamed.turn()).unwrap();
            let (head, sent) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&content_length(sent.len())), "{head}");
            assert!(!head.contains("session"));
            let answer = br#"{"choices":[{"message":{"role":"assistant","content":"Yes."}}]}"#;
            for session in [&mut named, &mut unnamed] {
                session.answered(&Message::of(answer)).unwrap();
            }
            assert_eq!(body(unnamed.turn())["messages"][count]["content"], "Yes.");
        }
        assert!(unnamed.answered(&Message::of(b"{}")).is_err());
    }

    #[test]
    fn varied_turns_ask_another_question_each_time() {
        let mut session = session(Target::Herma, Api::RecallVaried, 2);
        let mut texts = vec![body(opening(&session))["messages"][0]["content"].clone()];
        for _ in 0..3 {
            texts.push(body(session.turn())["messages"][0]["content"].clone());
            session.answered(&Message::of(b"{}")).unwrap();
        }
        let different: std::collections::HashSet<String> = texts.iter().map(ToString::to_string).collect();
        assert_eq!(different.len(), 4, "{texts:?}");
    }

    #[test]
    fn each_first_turn_has_a_text_of_its_own_and_names_no_session() {
        let mut session = session(Target::Herma, Api::First, 0);
        assert!(session.opening.is_none());
        let mut texts = Vec::new();
        for _ in 0..3 {
            let request = std::str::from_utf8(session.turn()).unwrap();
            assert!(!request.contains("session"), "{request}");
            let messages = body(session.turn())["messages"].clone();
            assert_eq!(messages.as_array().unwrap().len(), 1);
            texts.push(messages[0]["content"].as_str().unwrap().to_owned());
            session.answered(&Message::of(b"{}")).unwrap();
        }
        assert!(texts[0] != texts[1] && texts[1] != texts[2], "{texts:?}");
    }

    #[test]
    fn every_api_gets_the_same_messages() {
        for history in [2, 200] {
            let chat = session(Target::Herma, Api::Chat, history);
            for api in [Api::Slug, Api::Chained] {
                let other = session(Target::Herma, api, history);
                assert_eq!(body(opening(&other))["input"], body(opening(&chat))["messages"]);
                assert_eq!(body(other.turn())["input"], body(chat.turn())["messages"]);
            }
        }
    }
}

//! The upstream: fixed answers, one thread, as little CPU as possible.
//!
//! The upstream searches the bytes of a request for `"stream":true`, and for these words in the user's text:
//!
//! - [`PAUSE`]: wait 5 ms before the first byte, as a fast model does;
//! - [`HOLD`]: keep the stream open;
//! - [`AT_ONCE`]: send a stream of 200 tokens with one write, as fast model servers do;
//! - [`COUNT`]: report a usage that grows with the request;
//! - [`CALL`]: call a tool of Herma's, if the request ends with a user message.
//!
//! A request for a summary gets a summary.

use std::io;
use std::time::Duration;

use memchr::memmem;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use crate::bench::http1::Connection;

/// In the user's text: pause before the first byte.
pub(in crate::bench) const PAUSE: &str = "[pause]";
/// In the user's text: send a token, then keep the stream open until the client disconnects.
pub(in crate::bench) const HOLD: &str = "[hold]";
/// In the user's text: send many tokens with one write.
pub(in crate::bench) const AT_ONCE: &str = "[at once]";
/// In the user's text: report one token per four bytes of the request.
pub(in crate::bench) const COUNT: &str = "[count]";

/// In the user's text: call the tool `session_read` before the answer.
pub(in crate::bench) const CALL: &str = "[call]";
/// The conversation that the tool is to read.
pub(in crate::bench) const READ: &str = "bench-note";

/// The length of [`PAUSE`].
pub(in crate::bench) const PAUSE_LENGTH: Duration = Duration::from_millis(5);

const WORDS: [&str; 8] = ["Of ", "course: ", "the ", "answer ", "is ", "forty", "-two", "."];
const SUMMARY: [&str; 3] = [
    "They read a text together, and the user asks what its third paragraph leaves open. ",
    "So far: who decides when two disagree, and what becomes of work already done. ",
    "The answer given each time is forty-two.",
];
/// The text after the conversation in a request for a summary.
const CONVERSATION_ENDS: &str = "</conversation>";

/// Tokens of a stream that is sent with one write.
const AT_ONCE_TOKENS: usize = 200;

const PROMPT_TOKENS: usize = 20;
const ANSWER_TOKENS: usize = 8;

/// Serves until it is killed.
pub(in crate::bench) fn serve() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        eprintln!("listening on http://{}", listener.local_addr()?);
        loop {
            let (socket, _) = listener.accept().await?;
            tokio::spawn(connection(socket));
        }
    })
}

async fn connection(socket: TcpStream) -> io::Result<()> {
    let mut connection = Connection::new(socket)?;
    let (usual, summary) = (frames(&WORDS), frames(&SUMMARY));
    let usual_whole = whole(PROMPT_TOKENS);
    let calling = call();
    let at_once: Vec<&str> = WORDS.into_iter().cycle().take(AT_ONCE_TOKENS).collect();
    let at_once = frames(&at_once).concat();
    while let Some(request) = connection.read(|_| {}).await? {
        let asks = |word: &str| memmem::find(request.body(), word.as_bytes()).is_some();
        let streamed = asks("\"stream\":true") || asks("\"stream\": true");
        let (pause, hold) = (asks(PAUSE), asks(HOLD));
        if pause {
            tokio::time::sleep(PAUSE_LENGTH).await;
        }
        if !streamed && asks(CALL) && ends_with_user(request.body()) {
            connection.stream.write_all(&calling).await?;
            continue;
        }
        if !streamed {
            let counted = asks(COUNT).then(|| whole(request.body().len() / 4));
            connection.stream.write_all(counted.as_ref().unwrap_or(&usual_whole)).await?;
            continue;
        }
        if asks(AT_ONCE) {
            connection.stream.write_all(&at_once).await?;
            continue;
        }
        let frames = if asks(CONVERSATION_ENDS) { &summary } else { &usual };
        for (index, frame) in frames.iter().enumerate() {
            connection.stream.write_all(frame).await?;
            if hold && index == 1 {
                connection.read(|_| {}).await?;
                return Ok(());
            }
        }
    }
    Ok(())
}

fn usage(prompt: usize) -> String {
    let total = prompt + ANSWER_TOKENS;
    format!(r#""usage":{{"prompt_tokens":{prompt},"completion_tokens":{ANSWER_TOKENS},"total_tokens":{total}}}"#)
}

/// Whether the last message of a request is the user's, and not the result of a call.
fn ends_with_user(body: &[u8]) -> bool {
    const ROLE: &[u8] = br#""role":""#;
    memmem::rfind(body, ROLE).is_some_and(|at| body[at + ROLE.len()..].starts_with(b"user"))
}

/// An answer that is not streamed, with its HTTP head.
fn whole(prompt: usize) -> Vec<u8> {
    let message = format!(r#"{{"role":"assistant","content":"{}","refusal":null}}"#, WORDS.concat());
    completion(&message, "stop", prompt)
}

/// An answer that calls a tool.
fn call() -> Vec<u8> {
    let function = format!(r#"{{"name":"session_read","arguments":"{{\"id\":\"{READ}\"}}"}}"#);
    let calls = format!(r#"[{{"id":"call_bench","type":"function","function":{function}}}]"#);
    let message = format!(r#"{{"role":"assistant","content":null,"tool_calls":{calls}}}"#);
    completion(&message, "tool_calls", PROMPT_TOKENS)
}

fn completion(message: &str, reason: &str, prompt: usize) -> Vec<u8> {
    let body = format!(
        r#"{{"id":"chatcmpl-bench","object":"chat.completion","created":1767225600,"model":"bench","choices":[{{"index":0,"message":{message},"finish_reason":"{reason}"}}],{}}}"#,
        usage(prompt)
    );
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// A streamed answer: one write per frame; the HTTP head is in the first.
fn frames(words: &[&str]) -> Vec<Vec<u8>> {
    let frame = |data: &str| {
        let event = format!("data: {data}\n\n");
        format!("{:x}\r\n{event}\r\n", event.len()).into_bytes()
    };
    let chunk = |rest: &str| {
        frame(&format!(
            r#"{{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1767225600,"model":"bench",{rest}}}"#
        ))
    };
    let delta = |delta: &str, reason: &str| {
        chunk(&format!(r#""choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":{reason}}}]"#))
    };
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut frames = vec![[&head[..], &delta(r#""role":"assistant","content":"""#, "null")].concat()];
    frames.extend(words.iter().map(|word| delta(&format!(r#""content":"{word}""#), "null")));
    frames.push(delta("", "\"stop\""));
    frames.push(chunk(&format!(r#""choices":[],{}"#, usage(PROMPT_TOKENS))));
    frames.push([&frame("[DONE]")[..], b"0\r\n\r\n"].concat());
    frames
}

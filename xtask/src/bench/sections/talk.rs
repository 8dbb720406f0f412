//! A client that takes turns, and the state of its conversation that the answers report.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::bench::child::Child;
use crate::bench::http1::{Connection, unframed};
use crate::bench::load::{self, Shape, USER_TEXT, milliseconds};
use crate::bench::servers::upstream::COUNT;
use crate::bench::statistics::percentile;

/// A client on its own connection.
pub(super) struct Client<'a> {
    server: &'a Child,
    connection: Connection,
}

/// What an answer reports about its conversation.
pub(super) struct TurnReport {
    /// The stable handle.
    pub(super) conversation: String,
    /// Compactions so far.
    pub(super) compactions: u64,
    /// Prompt tokens of the turn.
    pub(super) prompt: u64,
}

/// The measurements of requests that were sent one after the other.
pub(super) struct Block {
    latencies: Vec<f64>,
    /// CPU of the server for all requests.
    spent: Duration,
}

impl Block {
    /// CPU of the server per request, in microseconds.
    pub(super) fn cpu(&self) -> f64 {
        self.spent.as_secs_f64() * 1e6 / self.latencies.len() as f64
    }

    /// The median latency, in milliseconds.
    pub(super) fn p50(&self) -> f64 {
        percentile(&self.latencies, 50)
    }

    /// The 99th percentile of the latency, in milliseconds.
    pub(super) fn p99(&self) -> f64 {
        percentile(&self.latencies, 99)
    }

    /// The median latency of requests 1, 3, 5 and so on, in milliseconds.
    pub(super) fn p50_of_first_name(&self) -> f64 {
        percentile(&self.latencies.iter().copied().step_by(2).collect::<Vec<_>>(), 50)
    }

    /// The mean latency, in milliseconds.
    pub(super) fn mean(&self) -> f64 {
        self.latencies.iter().sum::<f64>() / self.latencies.len() as f64
    }
}

impl<'a> Client<'a> {
    pub(super) async fn connect(server: &'a Child) -> io::Result<Self> {
        Ok(Self { server, connection: load::connect(server.address()).await? })
    }

    /// Sends one request, not measured.
    pub(super) async fn send(&mut self, request: &Bytes) -> io::Result<()> {
        load::in_time(load::exchange(&mut self.connection, request)).await.map(drop)
    }

    /// Sends one request, not measured, and returns the answer.
    pub(super) async fn answer(&mut self, request: &Bytes) -> io::Result<Value> {
        let (_, answer) = load::in_time(load::converse(&mut self.connection, request)).await?;
        Ok(serde_json::from_str(&unframed(&answer))?)
    }

    /// Takes turns, not measured.
    pub(super) async fn talk(&mut self, name: &str, turns: usize) -> io::Result<()> {
        let request = turn(name);
        for _ in 0..turns {
            self.send(&request).await?;
        }
        Ok(())
    }

    /// Takes one turn and returns what the answer reports about the conversation.
    pub(super) async fn ask(&mut self, name: &str) -> io::Result<TurnReport> {
        let answer = self.answer(&turn(name)).await?;
        let (session, usage) = (&answer["session"], &answer["usage"]);
        let told = || {
            Some(TurnReport {
                conversation: session["conversation_id"].as_str()?.to_owned(),
                compactions: session["provenance"]["compaction_count"].as_u64()?,
                prompt: usage["prompt_tokens"].as_u64()?,
            })
        };
        told().ok_or_else(|| io::Error::other(format!("an answer that lacks something: {answer}")))
    }

    /// Sends these requests in order, again and again, until `count` are sent.
    pub(super) async fn block(&mut self, requests: &[Bytes], count: usize) -> io::Result<Block> {
        let before = self.server.cpu()?;
        let mut latencies = Vec::with_capacity(count);
        for request in requests.iter().cycle().take(count) {
            let sample = load::in_time(load::exchange(&mut self.connection, request)).await?;
            latencies.push(milliseconds(sample.latency));
        }
        Ok(Block { latencies, spent: self.server.cpu()?.since(&before) })
    }
}

/// A conversation that was split, with the id of its first session and its stable handle.
pub(super) struct Split {
    pub(super) first: String,
    pub(super) stable: String,
    pub(super) depth: usize,
}

impl Split {
    /// Creates a conversation and splits it `depth` times. The last turn uses the stable handle.
    pub(super) async fn make(herma: &Child, depth: usize) -> io::Result<Self> {
        let mut client = Client::connect(herma).await?;
        let first = load::session_name();
        for _ in 0..depth {
            client.send(&long_turn(&first)).await?;
            client.send(&turn(&first)).await?;
            client.send(&load::compact(&first)).await?;
        }
        let stable = client.ask(&first).await?.conversation;
        client.send(&turn(&stable)).await?;
        Ok(Self { first, stable, depth })
    }
}

/// A turn of usual length. The upstream reports its tokens.
pub(super) fn turn(name: &str) -> Bytes {
    load::ask(name, &format!("{COUNT} {USER_TEXT}"), Shape::Whole)
}

/// A turn that takes much of the context window.
pub(super) fn long_turn(name: &str) -> Bytes {
    load::ask(name, &format!("{COUNT} {}", USER_TEXT.repeat(20)), Shape::Whole)
}

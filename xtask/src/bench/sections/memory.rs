//! Resident memory: after the first turn, and per open stream.

use std::io;

use futures_util::future::try_join_all;
use tokio::io::AsyncWriteExt;

use crate::bench::http1::Connection;
use crate::bench::load::{self, Pace, Shape, shows_token};
use crate::bench::options::Options;
use crate::bench::servers::upstream::HOLD;
use crate::bench::table::{Table, at_most};
use crate::bench::testbed::{Target, Testbed};

/// MiB when idle.
const IDLE_GOAL: f64 = 25.0;
/// KiB per open stream.
const STREAM_GOAL: f64 = 48.0;
/// Streams opened at the same time; more would overflow the listener's queue.
const AT_ONCE: usize = 50;

/// Measures fresh processes, first idle and then with open streams.
pub(in crate::bench) async fn run(options: &Options) -> io::Result<()> {
    let targets: Vec<Target> = options.targets().into_iter().filter(|target| *target != Target::Direct).collect();
    let testbed = Testbed::start(&targets)?;
    let streams = options.streams();
    println!("Resident memory of fresh processes; each stream is a session of its own that has shown a token.\n");
    let mut table = Table::new(["server", "idle, MiB", &format!("{streams} streams, MiB"), "per stream, KiB"]);
    for server in testbed.servers() {
        let child = testbed.child(server);
        let mut connection = load::connect(child.address()).await?;
        load::exchange(&mut connection, &load::ask(&load::session_name(), "hello", Shape::Whole)).await?;
        let idle = child.resident()? as f64;
        let held = load::in_time(open(child.address(), streams)).await?;
        let busy = child.resident()? as f64;
        drop(held);
        let (idle, busy, each) = (idle / MIB, busy / MIB, (busy - idle) / KIB / streams as f64);
        table.row(match server.target() {
            Target::Herma => {
                ["herma".to_owned(), at_most(idle, IDLE_GOAL, ""), format!("{busy:.1}"), at_most(each, STREAM_GOAL, "")]
            }
            other => [other.name().to_owned(), format!("{idle:.1}"), format!("{busy:.1}"), format!("{each:.1}")],
        });
    }
    table.print();
    Ok(())
}

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * 1024.0;

async fn open(address: std::net::SocketAddr, count: usize) -> io::Result<Vec<Connection>> {
    let mut held = Vec::with_capacity(count);
    while held.len() < count {
        let batch = AT_ONCE.min(count - held.len());
        held.extend(try_join_all((0..batch).map(|_| hold(address))).await?);
    }
    Ok(held)
}

/// Opens a stream and waits for its first token.
async fn hold(address: std::net::SocketAddr) -> io::Result<Connection> {
    let mut connection = load::connect(address).await?;
    let request = load::ask(&load::session_name(), HOLD, Shape::Streamed(Pace::Usual));
    connection.stream.write_all(&request).await?;
    connection.read_until(shows_token).await?;
    Ok(connection)
}

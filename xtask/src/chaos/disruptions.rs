//! Disturbances: kills, drains, pauses, and another program that holds the store's lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::deployment::Deployment;
use super::history::Stall;
use super::options::{Options, Situation};
use super::recorder::Recorder;
use crate::random::Random;

/// A lease that is not renewed for this long may be taken over. A long pause is longer than this.
pub(super) const LEASE: Duration = Duration::from_secs(10);

/// Disturbs one process until the deadline. At the end the process runs.
pub(super) async fn disturb(
    server: usize,
    (deployment, recorder, options): (Arc<Deployment>, Arc<Recorder>, Arc<Options>),
    mut random: Random,
    deadline: Instant,
) {
    loop {
        let wait = Duration::from_millis(400 + random.below(3500));
        let (fate, length) = (random.below(100), random.below(1000));
        if Instant::now() + wait >= deadline {
            break;
        }
        tokio::time::sleep(wait).await;
        let _claim = deployment.claim(server).await;
        let share = |longest: u64| Duration::from_millis(100 + longest * length / 1000);
        match fate {
            0..45 if options.has(Situation::Kills) => {
                recorder.count("kills");
                deployment.kill(server).await;
                tokio::time::sleep(share(1500)).await;
                deployment.revive().await;
            }
            45..55 if options.has(Situation::Drains) => {
                recorder.count("drains");
                deployment.drain(server).await;
                deployment.revive().await;
            }
            55..80 if options.has(Situation::Pauses) => {
                recorder.count("pauses");
                pause(server, &deployment, &recorder, share(2900)).await;
            }
            80..93 if options.has(Situation::LongPauses) => {
                recorder.count("long pauses");
                pause(server, &deployment, &recorder, LEASE + share(4000)).await;
            }
            93.. if options.has(Situation::Locks) => {
                let longest = if options.is_long() { 8000 } else { 2000 };
                hold_the_lock(&deployment, &recorder, share(longest)).await;
            }
            _ => {}
        }
    }
}

/// Stops a process for this time. The caller must hold the claim on it.
pub(super) async fn pause(server: usize, deployment: &Deployment, recorder: &Recorder, length: Duration) {
    let from = deployment.now();
    deployment.pause(server).await;
    tokio::time::sleep(length).await;
    deployment.resume(server).await;
    recorder.stalled(Stall { from, to: deployment.now(), server: Some(server) });
}

/// Holds the store's write lock for this time, as another program would.
pub(super) async fn hold_the_lock(deployment: &Deployment, recorder: &Recorder, length: Duration) {
    recorder.count("locks");
    let from = deployment.now();
    let path = deployment.data().join("herma.db");
    let held = tokio::task::spawn_blocking(move || {
        let connection = rusqlite::Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(2))?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        std::thread::sleep(length);
        connection.execute_batch("ROLLBACK")
    });
    // Without the lock nothing was disturbed, which is no finding: the processes were busy.
    let _held = held.await;
    recorder.stalled(Stall { from, to: deployment.now(), server: None });
}

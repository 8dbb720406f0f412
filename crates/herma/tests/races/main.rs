//! Concurrency, retries and crashes, tested over real sockets and with real processes.
#![cfg(test)]

mod background;
#[cfg(feature = "crash-points")]
mod crash_points;
mod disconnect;
mod drain;
mod events;
mod first_turns;
mod history_cache;
mod idempotency;
mod interrupts;
mod isolation;
mod kills;
mod late_reattempts;
mod long;
mod long_conversations;
mod lost_waiters;
mod notices;
mod overtaking;
mod queue;
mod queued_reattempts;
mod reattempts;
mod rewinds;
mod runs;
mod sdk_retries;
#[cfg(feature = "crash-points")]
mod split_crashes;
mod splits;
mod stalls;
mod stateless;
mod stored;
mod support;
mod threads;
#[cfg(feature = "crash-points")]
mod tool_crashes;
mod turns;
mod websocket;

//! Concurrency, retries and crashes, tested over real sockets and with real processes.
#![cfg(test)]

mod background;
mod begun_anew;
#[cfg(feature = "crash-points")]
mod crash_points;
mod disconnect;
mod drain;
mod events;
mod history_cache;
mod idempotency;
mod interrupts;
mod isolation;
mod kills;
mod living;
mod long;
mod long_lives;
mod lost_waiters;
mod notices;
mod openings;
mod overtaking;
mod queue;
mod reattempts;
mod rewinds;
mod runs;
mod sdk_retries;
#[cfg(feature = "crash-points")]
mod split_crashes;
mod splits;
mod stateless;
mod stored;
mod support;
mod threads;
mod turns;
mod waiting_again;
mod websocket;

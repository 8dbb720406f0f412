//! Named points of a turn at which a test can kill the process, as `kill -9` would, or make the turn panic.
//!
//! Without the feature `crash-points` they do nothing.

/// After the admission was decided, before the model is called.
pub const ADMITTED: &str = "admitted";
/// With the summary in hand, before the compaction is written.
pub const SUMMARISED: &str = "summarised";
/// After the compaction was written, before the model is called.
pub const COMPACTED: &str = "compacted";
/// After the first piece of a streamed answer was shown.
pub const SHOWN: &str = "shown";
/// After calls of Herma's own tools were stored, before they are made.
pub const CALLS_STORED: &str = "calls_stored";
/// After a turn was parked.
pub const PARKED: &str = "parked";
/// After a call was made, before its result is stored.
pub const CALL_MADE: &str = "call_made";
/// After the result of a call was stored.
pub const RESULT_STORED: &str = "result_stored";
/// With the whole answer in hand, before it is committed.
pub const ANSWERED: &str = "answered";
/// After the commit is visible and the next turn in line was woken. It may not be on disk yet.
pub const VISIBLE: &str = "visible";
/// After the commit is on disk, before the client is told.
pub const COMMITTED: &str = "committed";
/// A model has read a finished conversation, and its facts are not stored yet.
pub const READ: &str = "read";

/// The points that every streamed turn reaches, in order.
pub const POINTS: [&str; 5] = [ADMITTED, SHOWN, ANSWERED, VISIBLE, COMMITTED];

/// The points of a turn that calls one of Herma's own tools, in order.
pub const TOOL_POINTS: [&str; 3] = [CALLS_STORED, CALL_MADE, RESULT_STORED];

/// Kills the process if `HERMA_CRASH_AT` names this point. Panics once if `HERMA_PANIC_AT` names it.
#[cfg(feature = "crash-points")]
#[expect(clippy::panic, reason = "that is what a test asked for")]
pub fn point(name: &str) {
    static PANICKED: std::sync::Once = std::sync::Once::new();
    let is_wanted = |variable| std::env::var(variable).is_ok_and(|wanted| wanted == name);
    if is_wanted("HERMA_CRASH_AT") {
        std::process::abort();
    }
    if is_wanted("HERMA_PANIC_AT") && !PANICKED.is_completed() {
        PANICKED.call_once(|| {});
        panic!("asked to panic at {name}");
    }
}

/// Does nothing in this build.
#[cfg(not(feature = "crash-points"))]
pub const fn point(_name: &str) {}

//! Named points of a turn at which a test can make the whole process die, as `kill -9` would, or the turn alone panic.
//!
//! Without the feature `crash-points` nothing of this is in the program.

/// After the admission was decided, before the model is called.
pub const ADMITTED: &str = "admitted";
/// With the summary in hand, before the compaction is written.
pub const SUMMARISED: &str = "summarised";
/// After the compaction was written, before the model is called.
pub const COMPACTED: &str = "compacted";
/// After the first piece of a streamed answer was shown.
pub const SHOWN: &str = "shown";
/// With the whole answer in hand, before it is committed.
pub const ANSWERED: &str = "answered";
/// After the commit, before the client is told.
pub const COMMITTED: &str = "committed";

/// The points that every streamed turn reaches, in order.
pub const POINTS: [&str; 4] = [ADMITTED, SHOWN, ANSWERED, COMMITTED];

/// Dies here if `HERMA_CRASH_AT` names this point; panics once if `HERMA_PANIC_AT` does.
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

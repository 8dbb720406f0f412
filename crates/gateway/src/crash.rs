//! Named points of a turn at which a test can make the whole process die, as `kill -9` would.
//!
//! Without the feature `crash-points` nothing of this is in the program.

/// After the admission was decided, before the model is called.
pub const ADMITTED: &str = "admitted";
/// After the first piece of a streamed answer was shown.
pub const SHOWN: &str = "shown";
/// With the whole answer in hand, before it is committed.
pub const ANSWERED: &str = "answered";
/// After the commit, before the client is told.
pub const COMMITTED: &str = "committed";

/// Every point, in the order a turn reaches them.
pub const POINTS: [&str; 4] = [ADMITTED, SHOWN, ANSWERED, COMMITTED];

/// Dies here if `HERMA_CRASH_AT` names this point.
#[cfg(feature = "crash-points")]
pub fn point(name: &str) {
    if std::env::var("HERMA_CRASH_AT").is_ok_and(|wanted| wanted == name) {
        std::process::abort();
    }
}

/// Does nothing in this build.
#[cfg(not(feature = "crash-points"))]
pub const fn point(_name: &str) {}

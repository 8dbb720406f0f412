//! Limits that clients can see. Those that an operator may change are defaults here and settings elsewhere.

use std::time::Duration;

/// Longest session id, slug or session key, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Largest request body, by default.
pub const DEFAULT_MAX_BODY_BYTES: usize = 10_000_000;
/// Most bytes of all request bodies that are being read at the same time, unless set otherwise.
pub const DEFAULT_BODY_BUDGET: usize = 256_000_000;
/// Most messages in one request.
pub const MAX_REQUEST_MESSAGES: usize = 10_000;
/// Rows on a page when the client names no limit.
pub const DEFAULT_PAGE: usize = 50;
/// Most rows on a page.
pub const MAX_PAGE: usize = 200;
/// Most rows that a list can be told to leave out before its page begins. Cursors have no such limit.
pub const MAX_OFFSET: usize = 10_000;
/// How long after its end a turn can still be joined by an SDK's own retry, or a failed first turn be tried again
/// without a name.
pub const RETRY_WINDOW: Duration = Duration::from_secs(60);
/// Highest attempt number of an SDK's own retry that can join a turn.
pub const MAX_RETRY_ATTEMPT: u32 = 62;
/// Most messages of a conversation that can be pinned.
pub const MAX_PINNED: usize = 100;
/// Most items that a request can name instead of sending them.
pub const MAX_REFERENCES: usize = 2000;
/// Longest title, in characters.
pub const MAX_TITLE: usize = 256;
/// Longest search, in characters.
pub const MAX_SEARCH_CHARACTERS: usize = 1000;
/// Most words and phrases of a search.
pub const MAX_SEARCH_TERMS: usize = 64;

//! Limits that clients can see. If an operator can change a limit, this is its default.

use std::time::Duration;

/// Longest session id, slug or session key, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Largest request body, by default.
pub const DEFAULT_MAX_BODY_BYTES: usize = 10_000_000;
/// Most bytes of all request bodies that are read at the same time, by default.
pub const DEFAULT_BODY_BUDGET: usize = 256_000_000;
/// Most messages in one request.
pub const MAX_REQUEST_MESSAGES: usize = 10_000;
/// Rows on a page when the client names no limit.
pub const DEFAULT_PAGE: usize = 50;
/// Most rows on a page.
pub const MAX_PAGE: usize = 200;
/// Largest `offset` of a list. Cursors have no such limit.
pub const MAX_OFFSET: usize = 10_000;
/// How long after its end a turn can be joined by an SDK's own retry. A failed first turn without a name can be tried
/// again for the same time.
pub const RETRY_WINDOW: Duration = Duration::from_secs(60);
/// Highest attempt number of an SDK's own retry that can join a turn.
pub const MAX_RETRY_ATTEMPT: u32 = 62;
/// Most messages of a conversation that can be pinned.
pub const MAX_PINNED: usize = 100;
/// Most items that a request can refer to by id.
pub const MAX_REFERENCES: usize = 2000;
/// Longest title, in characters.
pub const MAX_TITLE: usize = 256;
/// Longest search, in characters.
pub const MAX_SEARCH_CHARACTERS: usize = 1000;
/// Most words and phrases of a search.
pub const MAX_SEARCH_TERMS: usize = 64;
/// Longest text of a fact in long-term memory, in characters.
pub const MAX_MEMORY: usize = 4000;

//! Tokens, under the names that Herma's own resources use.

use herma_model::Usage;
use serde::Serialize;

/// Tokens as JSON.
#[derive(Serialize)]
pub(super) struct ResourceUsage {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    cached_tokens: u64,
    reasoning_tokens: u64,
}

impl From<Usage> for ResourceUsage {
    fn from(usage: Usage) -> Self {
        let Usage { input, output, cached, reasoning, cache_write: _ } = usage;
        Self {
            input_tokens: input,
            output_tokens: output,
            total_tokens: usage.total(),
            cached_tokens: cached,
            reasoning_tokens: reasoning,
        }
    }
}

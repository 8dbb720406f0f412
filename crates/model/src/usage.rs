//! Token usage as the model server reported it.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tokens of one model call or the sum of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    #[serde(rename = "input_tokens")]
    pub input: u64,
    /// Tokens of the answer, reasoning included.
    #[serde(rename = "output_tokens")]
    pub output: u64,
    /// Prompt tokens that the server had cached.
    #[serde(rename = "cached_tokens")]
    pub cached: u64,
    /// Answer tokens spent on reasoning.
    #[serde(rename = "reasoning_tokens")]
    pub reasoning: u64,
    /// Prompt tokens that the server wrote to its cache. Known for a turn, not summed up for a conversation.
    #[serde(rename = "cache_write_tokens", default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Prompt and answer together.
    pub const fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cached = self.cached.saturating_add(other.cached);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

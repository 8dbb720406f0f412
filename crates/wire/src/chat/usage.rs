//! Token usage in the form of chat completions.

use herma_model::Usage;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    /// Absent if the server wrote nothing to its cache or does not say. OpenAI's chat completions do not have this
    /// field.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_tokens: Option<u64>,
}

#[derive(Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl From<&Usage> for ChatUsage {
    fn from(usage: &Usage) -> Self {
        Self {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            total_tokens: usage.total(),
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cached,
                cache_write_tokens: Some(usage.cache_write).filter(|tokens| *tokens > 0),
            },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning },
        }
    }
}

//! Recognises errors that say that a context is too long for the model.
//!
//! There is no standard for them. The lists hold codes and phrases that servers use.

use crate::decode::ReportedError;

const CODES: &[&str] =
    &["context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "string_above_max_length"];

/// Phrases in lower case. Each is about the length of the context, not about a rate limit or the answer's length.
const PHRASES: &[&str] = &[
    "maximum context length",
    "context length exceeded",
    "context_length_exceeded",
    "exceeds the context",
    "exceed context limit",
    "exceeds maximum context",
    "exceeds the available context size",
    "exceeds the maximum number of tokens",
    "greater than the context length",
    "exceeded model token limit",
    "context window exceed",
    "contextwindowexceeded",
    "context overflow",
    "longer than the maximum model length",
    "longer than the model's context",
    "larger than the maximum context",
    "maximum prompt length",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input tokens exceed",
    "reduce the length of the messages",
    "reduce the length of your prompt",
    "too many tokens",
    "too large for model with",
];

/// Whether an error says that the context is too long. Errors with the status of a rate limit never do, because
/// rate limits also mention too many tokens.
pub(super) fn is_context_too_long(error: &ReportedError) -> bool {
    if !matches!(error.status, None | Some(400 | 413 | 422)) {
        return false;
    }
    let message = error.message.to_lowercase();
    error.words.iter().any(|word| CODES.contains(&word.as_str()))
        || PHRASES.iter().any(|phrase| message.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(status: u16, message: &str, code: &str) -> bool {
        let (message, words) = (message.to_owned(), vec![code.to_owned()]);
        is_context_too_long(&ReportedError { message, words, status: Some(status) })
    }

    #[test]
    fn every_known_server_is_understood() {
        for message in [
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "the request exceeds the available context size, try increasing it",
            "input length exceeds maximum context length",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens",
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "Please reduce the length of the messages or completion.",
            "Input is too long for requested model.",
            "too many tokens: size limit exceeded by 1200 tokens",
        ] {
            assert!(says(400, message, ""), "{message}");
            assert!(!says(429, message, ""), "{message}");
        }
        assert!(says(400, "no", "context_length_exceeded"));
        assert!(says(413, "no", "exceed_context_size_error"));
    }

    #[test]
    fn other_errors_are_not_taken_for_it() {
        for message in ["invalid temperature", "max_tokens is too large: this model supports at most 4096", ""] {
            assert!(!says(400, message, "invalid_request_error"), "{message}");
        }
        assert!(!says(413, "Request Entity Too Large", ""));
        assert!(!says(500, "context_length_exceeded", "server_error"));
    }
}

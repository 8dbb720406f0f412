//! Token counts of an answer.

use herma_model::Usage;
use serde_json::Value;

/// Reads a `usage` member. `None` if it has no token counts.
pub(super) fn read_usage(usage: &Value) -> Option<Usage> {
    let count = |path: &str| usage.pointer(path).and_then(number);
    let input = count("/prompt_tokens").or_else(|| count("/input_tokens"));
    let output = count("/completion_tokens").or_else(|| count("/output_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    Some(Usage {
        input: input.unwrap_or(0),
        output: output.unwrap_or(0),
        cached: count("/prompt_tokens_details/cached_tokens")
            .or_else(|| count("/prompt_cache_hit_tokens"))
            .unwrap_or(0),
        reasoning: count("/completion_tokens_details/reasoning_tokens").unwrap_or(0),
        cache_write: count("/prompt_tokens_details/cache_write_tokens")
            .or_else(|| count("/input_tokens_details/cache_write_tokens"))
            .or_else(|| count("/cache_creation_input_tokens"))
            .unwrap_or(0),
    })
}

/// Larger counts are wrong and are reduced to this, so that no sum of counts overflows.
const MAX_COUNT: u64 = 1 << 40;

/// Reads a count. Some servers write it as a floating-point number.
fn number(value: &Value) -> Option<u64> {
    let count = value.as_u64().or_else(|| value.as_f64().filter(|count| *count >= 0.0).map(|count| count as u64));
    count.map(|count| count.min(MAX_COUNT))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_read_in_every_known_spelling() {
        let usage =
            |input, output, cached, reasoning| Some(Usage { input, output, cached, reasoning, ..Usage::default() });
        let written = |cache_write| Some(Usage { input: 9, output: 4, cache_write, ..Usage::default() });
        for (wire, expected) in [
            (json!(null), None),
            (json!({}), None),
            (json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}), usage(3, 4, 0, 0)),
            (json!({"prompt_tokens": 3.0, "completion_tokens": null}), usage(3, 0, 0, 0)),
            (json!({"input_tokens": 3, "output_tokens": 4}), usage(3, 4, 0, 0)),
            (json!({"prompt_tokens": u64::MAX, "completion_tokens": 1e30}), usage(MAX_COUNT, MAX_COUNT, 0, 0)),
            (json!({"prompt_tokens": -3, "completion_tokens": 4}), usage(0, 4, 0, 0)),
            (json!({"prompt_tokens": 3, "completion_tokens": 4, "prompt_cache_hit_tokens": 2}), usage(3, 4, 2, 0)),
            (
                json!({"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 1},
                       "completion_tokens_details": {"reasoning_tokens": 2}}),
                usage(3, 4, 1, 2),
            ),
            (json!({"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": null}), usage(3, 4, 0, 0)),
            (
                json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cache_write_tokens": 5}}),
                written(5),
            ),
            (json!({"input_tokens": 9, "output_tokens": 4, "cache_creation_input_tokens": 6}), written(6)),
        ] {
            assert_eq!(read_usage(&wire), expected, "{wire}");
        }
    }
}

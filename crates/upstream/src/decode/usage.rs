//! Token counts of an answer.

use std::fmt;

use herma_model::Usage;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Reads a `usage` member. `None` if it has no token counts.
pub(super) fn read_usage<'de>(usage: impl Deserializer<'de>) -> Option<Usage> {
    let sent = WireUsage::deserialize(usage).ok()?;
    let (Count(input), Count(output)) =
        (sent.prompt_tokens.or(sent.input_tokens), sent.completion_tokens.or(sent.output_tokens));
    if input.is_none() && output.is_none() {
        return None;
    }
    let prompt = sent.prompt_tokens_details.unwrap_or_default();
    let written = prompt.cache_write_tokens.or(sent.input_tokens_details.unwrap_or_default().cache_write_tokens);
    Some(Usage {
        input: input.unwrap_or(0),
        output: output.unwrap_or(0),
        cached: prompt.cached_tokens.or(sent.prompt_cache_hit_tokens).0.unwrap_or(0),
        reasoning: sent.completion_tokens_details.unwrap_or_default().reasoning_tokens.0.unwrap_or(0),
        cache_write: written.or(sent.cache_creation_input_tokens).0.unwrap_or(0),
    })
}

/// A `usage` member in every known spelling.
#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct WireUsage {
    prompt_tokens: Count,
    input_tokens: Count,
    completion_tokens: Count,
    output_tokens: Count,
    prompt_cache_hit_tokens: Count,
    cache_creation_input_tokens: Count,
    prompt_tokens_details: Option<Details>,
    input_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
}

/// What a count consists of.
#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct Details {
    cached_tokens: Count,
    cache_write_tokens: Count,
    reasoning_tokens: Count,
}

/// Larger counts are wrong and are reduced to this, so that no sum of counts overflows.
const MAX_COUNT: u64 = 1 << 40;

/// A count, if it is one. Some servers write it as a floating-point number.
#[derive(Default, Clone, Copy)]
struct Count(Option<u64>);

impl Count {
    fn or(self, other: Self) -> Self {
        Self(self.0.or(other.0))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a count")
    }

    fn visit_u64<E>(self, count: u64) -> Result<Count, E> {
        Ok(Count(Some(count.min(MAX_COUNT))))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Count, E> {
        // Positive counts come as `u64`.
        Ok(Count(None))
    }

    fn visit_f64<E>(self, count: f64) -> Result<Count, E> {
        Ok(Count((count >= 0.0).then_some((count as u64).min(MAX_COUNT))))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_unit<E>(self) -> Result<Count, E> {
        Ok(Count(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Count, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Count(None))
    }
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

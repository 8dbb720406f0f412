//! Token usage as the model server reported it, and what it cost.

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

    /// Whether nothing was used.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
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

/// What a model costs per million tokens, in the operator's currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// For a million prompt tokens.
    pub input: f64,
    /// For a million answer tokens.
    pub output: f64,
}

/// An amount of money, in millionths of the currency's unit. Never negative.
///
/// Sums of integers are exact, however many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(i64);

/// Millionths in one unit.
const MICROS: u128 = 1_000_000;

impl Cost {
    /// The largest cost of one call. Thousands of them do not overflow a sum.
    pub const MOST: Self = Self(1 << 53);

    /// Reads an amount in millionths. A negative one counts as zero.
    pub const fn from_micros(micros: i64) -> Self {
        Self(if micros < 0 { 0 } else { micros })
    }

    /// What these tokens cost at this price, rounded to the nearest millionth.
    pub fn of(usage: Usage, price: Price) -> Self {
        let [input, output] = [(usage.input, price.input), (usage.output, price.output)]
            .map(|(tokens, price)| u128::from(tokens).saturating_mul(micros_per_million(price)));
        let micros = input.saturating_add(output).saturating_add(MICROS / 2) / MICROS;
        i64::try_from(micros).map_or(Self::MOST, |micros| Self(micros).min(Self::MOST))
    }

    /// The amount in millionths.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The amount in whole units of the currency, as clients are shown it.
    pub fn units(self) -> f64 {
        self.0 as f64 / MICROS as f64
    }

    /// The sum of two amounts that may be unknown; `None` only if both are.
    pub fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(mut one), Some(other)) => {
                one += other;
                Some(one)
            }
            (one, other) => one.or(other),
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

/// A price in millionths. A price that is negative or not a number counts as zero.
fn micros_per_million(price: f64) -> u128 {
    (price * MICROS as f64).round() as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64, output: u64) -> Usage {
        Usage { input, output, ..Usage::default() }
    }

    #[test]
    fn a_cost_is_exact_to_the_millionth() {
        let price = Price { input: 0.25, output: 2.0 };
        for (usage, micros) in [
            (tokens(0, 0), 0),
            (tokens(1_000_000, 0), 250_000),
            (tokens(0, 1_000_000), 2_000_000),
            (tokens(4, 1), 3),
            (tokens(1, 0), 0),
            (tokens(2, 0), 1),
            (tokens(3, 0), 1),
            (tokens(u64::MAX, u64::MAX), Cost::MOST.micros()),
        ] {
            assert_eq!(Cost::of(usage, price).micros(), micros, "{usage:?}");
        }
        assert_eq!(Cost::of(tokens(1_000_000, 0), price).units().to_string(), "0.25");
    }

    #[test]
    fn a_price_that_is_no_positive_number_costs_nothing() {
        for price in [-1.0, f64::NAN, 0.0] {
            assert_eq!(Cost::of(tokens(1_000_000, 1), Price { input: price, output: price }), Cost::default());
        }
        let endless = Price { input: f64::INFINITY, output: 0.0 };
        assert_eq!(Cost::of(tokens(1, 0), endless), Cost::MOST);
    }

    #[test]
    fn ten_thousand_small_costs_are_their_exact_sum() {
        let mut sum = None;
        for _ in 0..10_000 {
            sum = Cost::sum(sum, Some(Cost::of(tokens(0, 1_000), Price { input: 0.0, output: 0.1 })));
        }
        assert_eq!(sum.map(Cost::micros), Some(1_000_000));
        assert_eq!(Cost::sum(None, None), None);
        assert_eq!(Cost::sum(Some(Cost::from_micros(2)), None), Some(Cost::from_micros(2)));
    }
}

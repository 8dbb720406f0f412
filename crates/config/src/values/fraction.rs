//! Fractions, such as a part of a model's context window.

use std::fmt;

use crate::reading::given::{GivenValue, ValueError};
use crate::reading::setting::Setting;

/// A number above 0 and below 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// `None` if the value is out of range.
    pub fn new(value: f64) -> Option<Self> {
        (value > 0.0 && value < 1.0).then_some(Self(value))
    }

    /// A fraction in percent, for constant defaults.
    pub(crate) const fn percent(hundredths: u8) -> Self {
        assert!(hundredths > 0 && hundredths < 100);
        Self(hundredths as f64 / 100.0)
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// This part of `tokens`, rounded down.
    pub fn of(self, tokens: u32) -> u32 {
        // The product is between 0 and `tokens`, so the conversion only rounds it down.
        (f64::from(tokens) * self.0) as u32
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Setting for Fraction {
    const ALLOWED: &'static str = "a number above 0 and below 1, such as 0.75";

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        Self::new(given.number()?).ok_or(ValueError::NotAllowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_never_nothing_and_never_all() {
        for value in [0.0, 1.0, -0.1, 1.5, f64::NAN, f64::INFINITY] {
            assert_eq!(Fraction::new(value), None, "{value}");
        }
        assert_eq!(Fraction::new(0.75), Some(Fraction::percent(75)));
        assert_eq!(Fraction::percent(75).of(128_000), 96_000);
    }
}

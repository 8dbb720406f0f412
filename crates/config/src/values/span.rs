//! Durations as people write them: a whole number and a unit.

use std::time::Duration;

use crate::reading::given::{GivenValue, ValueError};
use crate::reading::setting::Setting;

/// The `allowed` text for a duration that may be zero.
pub(crate) const FORMS: &str = r#"a duration such as "250ms", "120s", "2m", "1h" or "7d""#;
/// The `allowed` text for a duration that must not be zero.
pub(crate) const FORMS_ABOVE_ZERO: &str = r#"a duration above zero, such as "250ms", "120s", "2m", "1h" or "7d""#;

/// Units with their length in milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// A hundred years. Adding it to any clock does not overflow.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

/// Reads a duration. `None` if the form is wrong or it is too long.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, length) = UNITS.into_iter().find(|(name, _)| *name == unit.trim_start())?;
    let span = Duration::from_millis(number.parse::<u64>().ok()?.checked_mul(length)?);
    (span <= LONGEST).then_some(span)
}

/// Writes a duration as a whole number in the longest possible unit.
pub(crate) fn text(span: Duration) -> String {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let longest = UNITS.into_iter().find(|(_, length)| millis != 0 && millis % length == 0);
    match longest {
        // Up to two minutes are written in seconds, which are easier to read.
        Some(("m", _)) if millis <= 120_000 => format!("{}s", millis / 1_000),
        Some((unit, length)) => format!("{}{unit}", millis / length),
        None => "0s".to_owned(),
    }
}

impl Setting for Duration {
    const ALLOWED: &'static str = FORMS;

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        parse(given.text()?).ok_or(ValueError::NotAllowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (written, millis) in [
            ("250ms", 250),
            ("120s", 120_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
            ("0s", 0),
            ("5 s", 5_000),
        ] {
            assert_eq!(parse(written), Some(Duration::from_millis(millis)), "{written}");
        }
        for written in
            ["", "120", "s", "-1s", "1.5s", "1h30m", "2 weeks", "99999999999d", "36601d", "99999999999999999999s"]
        {
            assert_eq!(parse(written), None, "{written}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for (span, written) in [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(1_250), "1250ms"),
            (Duration::from_secs(120), "120s"),
            (Duration::from_secs(180), "3m"),
            (Duration::from_secs(86_400), "1d"),
        ] {
            assert_eq!(text(span), written);
            assert_eq!(parse(written), Some(span));
        }
    }
}

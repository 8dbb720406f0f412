//! Secret text that is never printed.

use std::fmt;

use crate::reading::given::{GivenValue, ValueError};
use crate::reading::setting::Setting;

/// Printed in place of a secret.
pub(crate) const REDACTED: &str = "[redacted]";

/// A secret. `Debug` and `Display` print `[redacted]`. Only [`Secret::expose`] returns the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret text. Call it only to send or compare the secret.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl Setting for Secret {
    const ALLOWED: &'static str = "one line of text that is not empty";

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        String::read(given).map(Self)
    }

    fn show(_given: &GivenValue) -> String {
        REDACTED.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_only_given_away_on_purpose() {
        let secret = Secret::new("sk-1234");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "[redacted] [redacted] Some([redacted])");
        assert_eq!(secret.expose(), "sk-1234");
    }
}

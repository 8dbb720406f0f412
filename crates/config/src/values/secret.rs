//! Text that must never be printed.

use std::fmt;

use crate::reading::given::{Given, Refusal};
use crate::reading::setting::Setting;

/// What stands wherever a secret would have been printed.
pub(crate) const REDACTED: &str = "[redacted]";

/// A secret. `Debug` and `Display` print `[redacted]`; only [`Secret::expose`] gives it away.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a secret into custody.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the one place that must send or compare it.
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

    fn read(given: &Given) -> Result<Self, Refusal> {
        String::read(given).map(Self)
    }

    fn show(_given: &Given) -> String {
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

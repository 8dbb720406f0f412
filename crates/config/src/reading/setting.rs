//! The trait of all types that a setting can have, and its implementations for plain types.

use super::given::{GivenValue, ValueError};

/// The `allowed` text for whole numbers that must not be zero.
pub(crate) const POSITIVE: &str = "a whole number of at least 1";

/// A type that a setting can have.
pub(crate) trait Setting: Sized {
    /// What is allowed, in words that follow "must be".
    const ALLOWED: &'static str;

    /// Reads the value, or says why it cannot be used.
    fn read(given: &GivenValue) -> Result<Self, ValueError>;

    /// The value as messages show it. A type that may hold a secret must remove it here.
    fn show(given: &GivenValue) -> String {
        given.show()
    }
}

impl Setting for String {
    const ALLOWED: &'static str = "text that is not empty";

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        let text = given.text()?.trim();
        if text.is_empty() || text.chars().any(char::is_control) {
            Err(ValueError::NotAllowed)
        } else {
            Ok(text.to_owned())
        }
    }
}

impl Setting for bool {
    const ALLOWED: &'static str = "true or false";

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        given.boolean()
    }
}

impl Setting for u32 {
    const ALLOWED: &'static str = "a whole number from 0 to 4294967295";

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        Self::try_from(given.integer()?).map_err(|_| ValueError::NotAllowed)
    }
}

impl Setting for u64 {
    const ALLOWED: &'static str = "a whole number of at least 0";

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        Self::try_from(given.integer()?).map_err(|_| ValueError::NotAllowed)
    }
}

impl Setting for usize {
    const ALLOWED: &'static str = "a whole number of at least 0";

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        Self::try_from(given.integer()?).map_err(|_| ValueError::NotAllowed)
    }
}

impl Setting for f64 {
    const ALLOWED: &'static str = "a number";

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        given.number()
    }
}

impl Setting for Vec<String> {
    const ALLOWED: &'static str = "a list of texts";

    fn read(given: &GivenValue) -> Result<Self, ValueError> {
        Ok(given.list()?.into_iter().map(str::to_owned).collect())
    }
}

/// Defines an enum and its [`Setting`]: each variant has one word.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $allowed:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$vdoc])* $variant),+
        }

        impl $name {
            /// The word for it in the configuration.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl $crate::reading::setting::Setting for $name {
            const ALLOWED: &'static str = $allowed;

            fn read(
                given: &$crate::reading::given::GivenValue,
            ) -> Result<Self, $crate::reading::given::ValueError> {
                match given.text()?.trim() {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::reading::given::ValueError::NotAllowed),
                }
            }
        }
    };
}
pub(crate) use words;

//! What a type needs so that a setting can have it, and the plain types that have it.

use super::given::{Given, Refusal};

/// What whole numbers that may not be zero are said to be.
pub(crate) const POSITIVE: &str = "a whole number of at least 1";

/// A type that a setting can have.
pub(crate) trait Setting: Sized {
    /// What is allowed, in words that follow "must be".
    const ALLOWED: &'static str;

    /// Reads the value or says in what way it is wrong.
    fn read(given: &Given) -> Result<Self, Refusal>;

    /// The value as a message may show it. A type with secrets in it must take them out here.
    fn show(given: &Given) -> String {
        given.show()
    }
}

impl Setting for String {
    const ALLOWED: &'static str = "text that is not empty";

    fn read(given: &Given) -> Result<Self, Refusal> {
        let text = given.text()?.trim();
        if text.is_empty() || text.chars().any(char::is_control) { Err(Refusal::Value) } else { Ok(text.to_owned()) }
    }
}

impl Setting for bool {
    const ALLOWED: &'static str = "true or false";

    fn read(given: &Given) -> Result<Self, Refusal> {
        given.boolean()
    }
}

impl Setting for u32 {
    const ALLOWED: &'static str = "a whole number from 0 to 4294967295";

    fn read(given: &Given) -> Result<Self, Refusal> {
        Self::try_from(given.integer()?).map_err(|_| Refusal::Value)
    }
}

impl Setting for usize {
    const ALLOWED: &'static str = "a whole number of at least 0";

    fn read(given: &Given) -> Result<Self, Refusal> {
        Self::try_from(given.integer()?).map_err(|_| Refusal::Value)
    }
}

impl Setting for Vec<String> {
    const ALLOWED: &'static str = "a list of texts";

    fn read(given: &Given) -> Result<Self, Refusal> {
        Ok(given.list()?.into_iter().map(str::to_owned).collect())
    }
}

/// Gives an enum of words its [`Setting`]: one text a value.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident: $allowed:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$vdoc])* $variant),+
        }

        impl $name {
            /// The word that stands for it in the configuration.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl $crate::reading::setting::Setting for $name {
            const ALLOWED: &'static str = $allowed;

            fn read(
                given: &$crate::reading::given::Given,
            ) -> Result<Self, $crate::reading::given::Refusal> {
                match given.text()?.trim() {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::reading::given::Refusal::Value),
                }
            }
        }
    };
}
pub(crate) use words;

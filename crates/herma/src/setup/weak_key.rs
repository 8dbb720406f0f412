//! Whether a configured API key can be guessed.

use std::collections::HashSet;

/// The fewest characters of `HERMA_API_KEY`, and the fewest different ones.
const LENGTH: usize = 8;
const DIFFERENT: usize = 4;

/// What is wrong with a configured key, and what to do. `None` if it may be used.
pub(crate) fn weak_key(key: &str) -> Option<String> {
    let different = key.chars().collect::<HashSet<_>>().len();
    if key.chars().count() >= LENGTH && different >= DIFFERENT {
        return None;
    }
    Some(format!(
        "HERMA_API_KEY can be guessed: it needs at least {LENGTH} characters, {DIFFERENT} of them different; make a long \
         random one (`openssl rand -hex 24`), or unset it and use `herma keys create`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_monotonous_keys_are_weak() {
        for (key, is_weak) in [
            ("", true),
            ("secret", true),
            ("1234567", true),
            ("aaaaaaaaaaaa", true),
            ("abababababab", true),
            ("test-key", false),
            ("sk-0190aef3c2", false),
            ("schlüssel", false),
        ] {
            assert_eq!(weak_key(key).is_some(), is_weak, "{key}");
        }
        assert!(!weak_key("secret").unwrap().contains("secret"), "the key itself is not shown");
    }
}

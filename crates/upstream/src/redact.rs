//! Prepares text of a model server for display: no secrets, no control characters, not too long.

const REDACTED: &str = "[redacted]";

/// Prefixes of well-known providers' API keys, each with the least number of characters that must follow.
const KEY_PREFIXES: &[(&str, usize)] =
    &[("sk-", 1), ("sk_", 8), ("gsk_", 8), ("xai-", 16), ("hf_", 16), ("AIza", 16), ("Bearer ", 1)];

/// Replaces the given secrets and everything that looks like an API key or bearer token. Control characters
/// become spaces.
pub fn redact(text: &str, secrets: &[&str]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().map(|secret| secret.trim()).filter(|secret| !secret.is_empty()) {
        if text.contains(secret) {
            text = text.replace(secret, REDACTED);
        }
    }
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    hide_keys(&text)
}

/// Cuts text to at most `limit` characters, marking the cut.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        None => text.to_owned(),
        Some(_) => {
            let end = text.char_indices().nth(limit.saturating_sub(1)).map_or(0, |(at, _)| at);
            format!("{}…", text[..end].trim_end())
        }
    }
}

fn hide_keys(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = None;
    while let Some(next) = rest.chars().next() {
        if !before.is_some_and(char::is_alphanumeric)
            && let Some((prefix, key)) = key_at_start(rest)
        {
            if prefix.ends_with(' ') {
                shown.push_str(prefix);
            }
            shown.push_str(REDACTED);
            rest = &rest[prefix.len() + key..];
            before = Some(']');
        } else {
            shown.push(next);
            rest = &rest[next.len_utf8()..];
            before = Some(next);
        }
    }
    shown
}

/// The prefix as written, and how many bytes of key follow it.
fn key_at_start(text: &str) -> Option<(&str, usize)> {
    KEY_PREFIXES.iter().find_map(|(prefix, least)| {
        let written = text.get(..prefix.len()).filter(|start| start.eq_ignore_ascii_case(prefix))?;
        let rest = &text[prefix.len()..];
        let key = rest.bytes().take_while(|byte| is_key_byte(*byte)).count();
        (key >= *least && !rest.starts_with(REDACTED)).then_some((written, key))
    })
}

const fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'*' | b'.' | b'~' | b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_tokens_disappear() {
        for (text, shown) in [
            ("bad key: sk-abc***xyz", "bad key: [redacted]"),
            ("Incorrect key provided: hunter2 (hunter2)", "Incorrect key provided: [redacted] ([redacted])"),
            ("got `Authorization: bearer abc.def`", "got `Authorization: bearer [redacted]`"),
            ("SK-LOUD and gsk_0123456789", "[redacted] and [redacted]"),
            ("Bearer hunter2 refused", "Bearer [redacted] refused"),
            ("line\r\nbreak\u{0}\u{1b}[31m", "line  break  [31m"),
            ("a risk-free task-force, hf_small and ünï", "a risk-free task-force, hf_small and ünï"),
        ] {
            assert_eq!(redact(text, &["hunter2", ""]), shown, "{text}");
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
    }
}

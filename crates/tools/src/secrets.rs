//! Keeps configured values out of messages and logs.
//!
//! A server may repeat its token on stderr. What leaves this crate as words goes through [`Secrets::scrub`]; results
//! of tools do not, because they are the tool's own.

use crate::settings::Transport;

const REDACTED: &str = "[redacted]";
/// Shorter values are words such as `info` or `1`, which would be found everywhere.
const SHORTEST: usize = 6;
/// The longest message that is kept.
const LONGEST: usize = 600;

/// The values of one server's variables and headers.
#[derive(Clone)]
pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// Collects the values; of a header also what follows the scheme, as in `Bearer TOKEN`.
    pub(crate) fn of(transport: &Transport) -> Self {
        let mut values: Vec<String> = match transport {
            Transport::Command { env, .. } => env.iter().map(|(_, value)| value.clone()).collect(),
            Transport::Http { headers, .. } => headers
                .iter()
                .flat_map(|(_, value)| [Some(value.as_str()), value.split_once(' ').map(|(_, token)| token)])
                .flatten()
                .map(str::to_owned)
                .collect(),
        };
        values.retain(|value| value.trim().len() >= SHORTEST);
        // A value that contains another one has to go first.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// The text without secrets and control characters, on one line, cut to a length that can be shown.
    pub(crate) fn scrub(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.0 {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), REDACTED);
            }
        }
        let mut shown: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Some((at, _)) = shown.char_indices().nth(LONGEST) {
            shown.truncate(at);
            shown.push('…');
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_values_are_removed_and_short_words_stay() {
        let headers = vec![("Authorization".to_owned(), "Bearer s3cret-token".to_owned())];
        let http = Secrets::of(&Transport::Http { url: String::new(), headers });
        assert_eq!(http.scrub("got s3cret-token\nand Bearer s3cret-token"), "got [redacted] and [redacted]");
        let env = vec![("LOG".to_owned(), "info".to_owned()), ("KEY".to_owned(), "hunter22".to_owned())];
        let command = Secrets::of(&Transport::Command { command: String::new(), args: Vec::new(), env });
        assert_eq!(command.scrub("info: hunter22!"), "info: [redacted]!");
        assert_eq!(command.scrub(&"é".repeat(700)).chars().count(), LONGEST + 1);
    }
}

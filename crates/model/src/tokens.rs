//! Token counts: estimates, which are used before a model server has counted, and the counts of the server.

use crate::message::Seq;
use crate::usage::Usage;

/// The text before the data of an image, a sound or a file in a message.
const INLINE_DATA: [&str; 2] = [";base64,", "\"data\":\""];
/// Shorter data is estimated as text.
const LEAST_INLINE: usize = 4 * INLINE_TOKENS;
/// The estimate for such data, however many bytes it has.
const INLINE_TOKENS: usize = 1_000;

/// Estimates the tokens of a message's JSON form, rather too high: a quarter of its bytes, and a few for the frame. The
/// data of an image, a sound or a file counts as a fixed number.
pub fn estimate(json: &str) -> u32 {
    let (mut bytes, mut inline) = (json.len(), 0);
    if bytes > LEAST_INLINE {
        for marker in INLINE_DATA {
            for (at, _) in json.match_indices(marker) {
                let data = &json[at + marker.len()..];
                let length = data.bytes().take_while(|byte| is_base64(*byte)).count();
                if length > LEAST_INLINE {
                    bytes -= length;
                    inline += INLINE_TOKENS;
                }
            }
        }
    }
    u32::try_from(bytes / 4 + 4 + inline).unwrap_or(u32::MAX)
}

const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
}

/// The tokens of a context up to a message, that message included, as a model server counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The last message that was counted.
    pub through: Seq,
    /// Tokens of the context up to that message, system messages included.
    pub tokens: u64,
}

impl Counted {
    /// The size of a context that ends with an answer, from the usage of that answer. Reasoning does not count, because
    /// it is not sent back. `None` if the server did not count the prompt.
    pub fn of(usage: Usage, through: Seq) -> Option<Self> {
        let tokens = usage.input.saturating_add(usage.output).saturating_sub(usage.reasoning);
        (usage.input > 0).then_some(Self { through, tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_data_counts_the_same_whatever_its_length() {
        let text = format!("{{\"role\":\"user\",\"content\":\"{}\"}}", "word ".repeat(200));
        assert_eq!(estimate(&text), u32::try_from(text.len() / 4 + 4).unwrap());
        let image = |bytes| format!("{{\"url\":\"data:image/png;base64,{}\"}}", "A".repeat(bytes));
        let sound = |bytes| format!("{{\"input_audio\":{{\"data\":\"{}\"}}}}", "A".repeat(bytes));
        assert_eq!(estimate(&image(5_000)), estimate(&image(1_000_000)));
        assert_eq!(estimate(&sound(5_000)), estimate(&sound(1_000_000)));
        assert!(estimate(&format!("{}{}", image(9_000), sound(9_000))) > 2_000);
        assert!(estimate(&image(10)) < 20);
        let prose = format!("{{\"data\":\"{}\"}}", "word ".repeat(2_000));
        assert!(estimate(&prose) > 2_400, "text counts as text, even in a field `data`");
    }

    #[test]
    fn reasoning_is_not_part_of_the_next_context() {
        let usage = Usage { input: 100, output: 30, cached: 50, reasoning: 20, ..Usage::default() };
        assert_eq!(Counted::of(usage, Seq(4)), Some(Counted { through: Seq(4), tokens: 110 }));
        assert_eq!(Counted::of(Usage::default(), Seq(4)), None);
    }
}

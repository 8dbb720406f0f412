//! Token counts: estimated, for deciding before the model server has counted, and as the server counted them.

use crate::message::Seq;
use crate::usage::Usage;

/// What stands before the data of an image, a sound or a file that is part of a message.
const INLINE_DATA: [&str; 2] = [";base64,", "\"data\":\""];
/// Shorter data costs no more than it would as text.
const LEAST_INLINE: usize = 4 * INLINE_TOKENS;
/// What such a part is taken to cost, however many bytes it has.
const INLINE_TOKENS: usize = 1_000;

/// Tokens that a message's JSON form is likely to cost, leaning high: a quarter of its bytes and a little framing. Data that a model does
/// not read as text counts as a whole.
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

/// What a model server counted: the context up to a message, that message included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The last message that was counted.
    pub through: Seq,
    /// Tokens of everything up to there, system messages included.
    pub tokens: u64,
}

impl Counted {
    /// What the usage of an answer says of a context that ends with that answer. Reasoning is not sent back, so it does not count; a
    /// server that says nothing of the prompt has not counted.
    pub fn of(usage: Usage, through: Seq) -> Option<Self> {
        let tokens = usage.input.saturating_add(usage.output).saturating_sub(usage.reasoning);
        (usage.input > 0).then_some(Self { through, tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_data_counts_as_a_whole() {
        let text = format!("{{\"role\":\"user\",\"content\":\"{}\"}}", "word ".repeat(200));
        assert_eq!(estimate(&text), u32::try_from(text.len() / 4 + 4).unwrap());
        let image = |bytes| format!("{{\"url\":\"data:image/png;base64,{}\"}}", "A".repeat(bytes));
        let sound = |bytes| format!("{{\"input_audio\":{{\"data\":\"{}\"}}}}", "A".repeat(bytes));
        assert_eq!(estimate(&image(5_000)), estimate(&image(1_000_000)));
        assert_eq!(estimate(&sound(5_000)), estimate(&sound(1_000_000)));
        assert!(estimate(&format!("{}{}", image(9_000), sound(9_000))) > 2_000);
        assert!(estimate(&image(10)) < 20);
        let prose = format!("{{\"data\":\"{}\"}}", "word ".repeat(2_000));
        assert!(estimate(&prose) > 2_400, "text is text, whatever it is called");
    }

    #[test]
    fn reasoning_is_not_part_of_the_next_context() {
        let usage = Usage { input: 100, output: 30, cached: 50, reasoning: 20, ..Usage::default() };
        assert_eq!(Counted::of(usage, Seq(4)), Some(Counted { through: Seq(4), tokens: 110 }));
        assert_eq!(Counted::of(Usage::default(), Seq(4)), None);
    }
}

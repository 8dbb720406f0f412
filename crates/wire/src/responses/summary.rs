//! A summary that a client holds and sends back in place of what it summarises.
//!
//! The form is opaque but not secret: its holder can decode it, and it has only what that client sent or received. A
//! checksum proves that it is whole. So a text that was cut, or that comes from elsewhere, is not taken for a summary.

use herma_model::Digest;

/// The prefix of every sealed summary: the form and its version.
const PREFIX: &str = "herma-summary-1.";
/// Length in bytes of the checksum, which comes before the text.
const CHECKSUM: usize = 8;
/// The digits of base64url.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A summary as the `encrypted_content` of a compaction item.
pub fn seal_summary(text: &str) -> String {
    let bytes = [&checksum(text)[..], text.as_bytes()].concat();
    let mut sealed = String::with_capacity(PREFIX.len() + bytes.len().div_ceil(3) * 4);
    sealed.push_str(PREFIX);
    encode(&bytes, &mut sealed);
    sealed
}

/// Reads [`seal_summary`] back. `None` if the text is something else or is damaged.
pub fn open_summary(sealed: &str) -> Option<String> {
    let mut bytes = decode(sealed.strip_prefix(PREFIX)?)?;
    if bytes.len() < CHECKSUM {
        return None;
    }
    let text = String::from_utf8(bytes.split_off(CHECKSUM)).ok()?;
    (bytes == checksum(&text)).then_some(text)
}

fn checksum(text: &str) -> Vec<u8> {
    Digest::of_fields([PREFIX.as_bytes(), text.as_bytes()]).0[..CHECKSUM].to_vec()
}

fn encode(bytes: &[u8], text: &mut String) {
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]));
        }
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for chunk in text.as_bytes().chunks(4) {
        // One digit is less than a byte, so a chunk cannot have only one.
        if chunk.len() == 1 {
            return None;
        }
        let mut bits = 0_u32;
        for digit in chunk {
            bits = bits << 6 | value(*digit)?;
        }
        bits <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..chunk.len()]);
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

//! Estimated token counts, for deciding before the model server has counted.

/// Tokens that a message's JSON form is likely to cost, leaning high: a quarter of its bytes and a little framing.
pub const fn estimate(json: &str) -> u32 {
    let bytes = json.len();
    let tokens = bytes / 4 + 4;
    if tokens > u32::MAX as usize { u32::MAX } else { tokens as u32 }
}

//! Names that model servers take for functions: at most 64 characters of `[a-zA-Z0-9_-]`.
//!
//! A tool of a group is named `GROUP__tool`. The group is an MCP server's label, or a namespace of a client. Which of
//! the names here a tool gets is decided where all tools of a request or of a server are known.

use sha2::{Digest, Sha256};

/// The most characters of a name.
pub const LONGEST: usize = 64;
/// What stands between a group and a tool.
pub const SEPARATOR: &str = "__";
/// The characters of a group that stay however long its tool's name is.
const SHORTEST_GROUP: usize = 12;
/// Hexadecimal digits of a hash. The longer ones serve only if a shorter one is taken.
pub const HASH_DIGITS: [usize; 4] = [8, 16, 32, 48];

/// The text with `_` for every character that is not allowed.
pub fn allowed(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// The name with `_` for every character that is not allowed. It may be too long.
pub fn plain(group: &str, tool: &str) -> String {
    allowed(group) + SEPARATOR + &allowed(tool)
}

/// The name, cut where necessary, with a hash of the group and the tool's full name at its end.
///
/// A long group is cut first, because the tool's own name tells a model more.
pub fn hashed(group: &str, tool: &str, digits: usize) -> String {
    let digest = Sha256::new().chain_update(group).chain_update([0]).chain_update(tool).finalize();
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let room = LONGEST - 1 - digits;
    let (mut name, tool) = (allowed(group), allowed(tool));
    name.truncate(room.saturating_sub(SEPARATOR.len() + tool.len()).max(SHORTEST_GROUP));
    name = name + SEPARATOR + &tool;
    name.truncate(room);
    format!("{name}_{}", &hash[..digits])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_group_is_cut_before_the_tool() {
        let name = hashed(&"g".repeat(60), "close_agent", 8);
        assert!(name.len() == LONGEST && name.contains("g__close_agent_"), "{name}");
        let both = hashed(&"g".repeat(60), &"t".repeat(60), 8);
        assert!(both.len() == LONGEST && both.starts_with(&("g".repeat(SHORTEST_GROUP) + "__t")), "{both}");
    }
}

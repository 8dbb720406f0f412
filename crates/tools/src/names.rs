//! The names that tools are offered under: `LABEL__tool`.
//!
//! A name has at most 64 characters of `[a-zA-Z0-9_-]`; others become `_`. It depends on the configured labels and on
//! the server's own list alone, never on which servers run. No two tools share a name:
//!
//! - between servers, a label whose prefix begins with another label's prefix gives hashed names only;
//! - within a server, a tool that would take another one's name gets a hashed one. Names that needed no replacement
//!   stay as they are;
//! - a name that only looks hashed gets a hash, too, so that no hashed name can be imitated.

use std::collections::{BTreeMap, BTreeSet};

use herma_model::tool_name::{HASH_DIGITS, LONGEST, SEPARATOR, allowed, hashed, plain as plain_name};

/// Which of the labels give hashed names only.
pub(crate) fn hashed_labels<'a>(labels: &[&'a str]) -> BTreeSet<&'a str> {
    let prefix = |label: &str| allowed(label) + SEPARATOR;
    let hashed = |label: &&str| {
        let own = prefix(label);
        labels.iter().any(|other| {
            let theirs = prefix(other);
            let keeps_it = own == theirs && allowed(label) == **label;
            other != label && own.starts_with(&theirs) && !keeps_it
        })
    };
    labels.iter().copied().filter(hashed).collect()
}

/// Whether the prefix of a label begins with that of another one, so that their tools could share names.
pub(crate) fn begins(label: &str, with: &str) -> bool {
    (allowed(label) + SEPARATOR).starts_with(&(allowed(with) + SEPARATOR))
}

/// The offered name of each of a server's tools.
pub(crate) fn offered<'a>(
    label: &str,
    label_is_hashed: bool,
    tools: impl IntoIterator<Item = &'a str>,
) -> BTreeMap<&'a str, String> {
    let tools: BTreeSet<&str> = tools.into_iter().collect();
    let mut sharing: BTreeMap<String, usize> = BTreeMap::new();
    for tool in &tools {
        *sharing.entry(allowed(tool)).or_default() += 1;
    }
    let plain = |tool: &str| {
        let replaced = allowed(tool);
        let alone = replaced == tool || sharing.get(&replaced) == Some(&1);
        let name = plain_name(label, tool);
        (!label_is_hashed && alone && name.len() <= LONGEST && !looks_hashed(&name)).then_some(name)
    };
    let mut names = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for tool in &tools {
        let hashes = || HASH_DIGITS.iter().map(|&digits| hashed(label, tool, digits));
        let name = plain(tool).into_iter().chain(hashes()).find(|name| !taken.contains(name));
        if let Some(name) = name {
            taken.insert(name.clone());
            names.insert(*tool, name);
        }
    }
    names
}

fn looks_hashed(name: &str) -> bool {
    let is_hash = |end: &str| end.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    name.rsplit_once('_').is_some_and(|(_, end)| HASH_DIGITS.contains(&end.len()) && is_hash(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(label: &str, tools: &[&str]) -> Vec<String> {
        let names = offered(label, false, tools.iter().copied());
        tools.iter().map(|tool| names[tool].clone()).collect()
    }

    #[test]
    fn plain_names_are_label_and_tool() {
        assert_eq!(names("files", &["read_file", "a-b", "_x"]), ["files__read_file", "files__a-b", "files___x"]);
        assert_eq!(names("files", &["dir.list", "größe"]), ["files__dir_list", "files__gr__e"]);
    }

    #[test]
    fn a_long_name_is_cut_and_ends_in_a_hash_of_all_of_it() {
        let long = "x".repeat(80);
        let longer = long.clone() + "y";
        let both = names("files", &[&long, &longer]);
        assert!(both.iter().all(|name| name.len() == 64 && name.starts_with("files__xxx")), "{both:?}");
        assert_ne!(both[0], both[1]);
        assert_eq!(names("files", &[&"z".repeat(57)])[0].len(), 64);
        assert!(!looks_hashed(&names("files", &[&"z".repeat(57)])[0]));
    }

    #[test]
    fn a_tool_that_would_take_a_name_gets_a_hash() {
        let all = names("s", &["a.b", "a_b", "a b", "c.d"]);
        assert_eq!(all[1], "s__a_b");
        assert_eq!(all[3], "s__c_d");
        assert!(looks_hashed(&all[0]) && looks_hashed(&all[2]) && all[0] != all[2], "{all:?}");
        assert_eq!(all[0], names("s", &["a_b", "a.b"])[1], "the same hash whatever else there is");
    }

    #[test]
    fn a_name_that_looks_hashed_is_hashed() {
        let imitation = hashed("s", "a.b", 8);
        let imitating = imitation.strip_prefix("s__").unwrap();
        let all = names("s", &["a.b", "a_b", imitating]);
        assert_eq!(all[0], imitation);
        assert_ne!(all[2], imitation);
    }

    #[test]
    fn a_label_whose_prefix_is_the_beginning_of_another_prefix_is_known() {
        assert!(begins("a__b", "a") && begins("a.b", "a_b") && begins("a", "a"));
        assert!(!begins("a", "a__b") && !begins("ab", "a"));
    }

    #[test]
    fn labels_that_could_be_confused_give_hashed_names() {
        assert_eq!(hashed_labels(&["a", "b", "c_d"]), BTreeSet::new());
        assert_eq!(hashed_labels(&["a", "a__b", "a_"]), BTreeSet::from(["a__b", "a_"]));
        assert_eq!(hashed_labels(&["a.b", "a_b"]), BTreeSet::from(["a.b"]));
        assert_eq!(hashed_labels(&["a.b", "a b"]), BTreeSet::from(["a.b", "a b"]));
        assert_eq!(hashed_labels(&["a.b", "a__b"]), BTreeSet::new());
    }

    proptest! {
        #[test]
        fn names_are_well_formed_and_never_shared(
            servers in prop::collection::btree_map("[ab._é]{1,4}", prop::collection::btree_set("[ab._é-]{1,6}|[a._]{50,70}", 1..8), 1..5)
        ) {
            let labels: Vec<&str> = servers.keys().map(String::as_str).collect();
            let hashed = hashed_labels(&labels);
            let mut seen = BTreeSet::new();
            for (label, tools) in &servers {
                let names = offered(label, hashed.contains(label.as_str()), tools.iter().map(String::as_str));
                prop_assert_eq!(names.len(), tools.len());
                for name in names.values() {
                    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
                    prop_assert!(name.len() <= LONGEST && name.bytes().all(fine), "{}", name);
                    prop_assert!(seen.insert(name.clone()), "{} is shared", name);
                }
                let backwards = offered(label, hashed.contains(label.as_str()), tools.iter().rev().map(String::as_str));
                prop_assert_eq!(names, backwards);
            }
        }
    }
}

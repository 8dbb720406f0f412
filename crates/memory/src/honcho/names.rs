//! The names that things have at Honcho.
//!
//! Honcho allows letters, digits, `_` and `-`, and older servers at most 100 of them. So:
//!
//! | here | there |
//! |---|---|
//! | tenant | workspace `herma_STORE_TENANT`, with the random name of the store and the tenant's number |
//! | session key | peer `k-KEY`, where every byte but letters, digits and `-` is written `_` and two hex digits |
//! | a key whose name would be too long | peer `h-SHA256`, in hex |
//! | conversation | session, by the id |
//!
//! Two keys never share a name: the first form can be read back, and its first letter keeps it apart from the second.
//! The names that Hermes used are not like that: `a:b` and `a-b` fall together.

use herma_model::{ConversationId, SessionKey, TenantId};
use sha2::{Digest, Sha256};

/// The longest name that every server takes.
const LONGEST: usize = 100;
/// The peer that stands for the model. No session key has this name.
pub(super) const ASSISTANT: &str = "assistant";
/// Hermes' workspace, and its peer for the model.
pub(super) const HERMES: &str = "hermes";
/// How much of its hash Hermes gives a long name.
const HERMES_HASH: usize = 8;

/// The names of a session key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    /// The workspace.
    pub(super) workspace: String,
    /// The person.
    pub(super) peer: String,
    /// The model.
    pub(super) assistant: &'static str,
    /// The one session of the key. `None` if every conversation has its own.
    shared_session: Option<String>,
}

impl Names {
    /// Names that two keys never share.
    pub(super) fn own(store: &str, tenant: TenantId, key: &SessionKey) -> Self {
        Self {
            workspace: own_workspace(store, tenant),
            peer: peer(key.as_str()),
            assistant: ASSISTANT,
            shared_session: None,
        }
    }

    /// The names that Hermes gave. `None` if Hermes would have had none, because nothing of the key is left.
    pub(super) fn of_hermes(tenant: TenantId, is_default: bool, key: &SessionKey) -> Option<Self> {
        let session = hermes_session(key.as_str())?;
        Some(Self {
            workspace: hermes_workspace(tenant, is_default),
            peer: format!("user-default-{session}"),
            assistant: HERMES,
            shared_session: Some(session),
        })
    }

    /// The session of a conversation.
    pub(super) fn session(&self, conversation: ConversationId) -> String {
        self.shared_session.clone().unwrap_or_else(|| conversation.to_string())
    }

    /// The one session of the key, if its conversations share one.
    pub(super) fn shared_session(&self) -> Option<&str> {
        self.shared_session.as_deref()
    }
}

/// The workspace of a tenant.
pub(super) fn own_workspace(store: &str, tenant: TenantId) -> String {
    format!("herma_{store}_{}", tenant.0)
}

/// The workspace of a tenant, with Hermes' name for the default one.
pub(super) fn hermes_workspace(tenant: TenantId, is_default: bool) -> String {
    if is_default { HERMES.to_owned() } else { format!("{HERMES}_{}", tenant.0) }
}

fn peer(key: &str) -> String {
    use std::fmt::Write as _;

    let mut name = String::from("k-");
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "_{byte:02x}");
        }
    }
    if name.len() <= LONGEST { name } else { format!("h-{}", hash(key)) }
}

fn hash(text: &str) -> String {
    use std::fmt::Write as _;

    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Every run of other characters is one `-`, without those at the ends. A long name is cut and ends in a hash of the
/// whole key.
fn hermes_session(key: &str) -> Option<String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let mut name = String::new();
    let mut is_gap = false;
    for letter in key.chars() {
        match (is_allowed(letter), is_gap) {
            (true, _) => name.push(letter),
            (false, false) => name.push('-'),
            (false, true) => {}
        }
        is_gap = !is_allowed(letter);
    }
    let name = name.trim_matches('-');
    if name.len() <= LONGEST {
        return (!name.is_empty()).then(|| name.to_owned());
    }
    let cut = &name[..LONGEST - HERMES_HASH - 1];
    Some(format!("{}-{}", cut.trim_end_matches('-'), &hash(key)[..HERMES_HASH]))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn own(key: &str) -> String {
        Names::own("0123456789abcdef", TenantId(7), &SessionKey::parse(key).unwrap()).peer
    }

    fn of_hermes(key: &str) -> String {
        let names = Names::of_hermes(TenantId(1), true, &SessionKey::parse(key).unwrap()).unwrap();
        names.shared_session.unwrap()
    }

    #[test]
    fn keys_that_differ_in_anything_have_different_names() {
        let long = "x".repeat(250);
        let keys = [
            "a:b",
            "a-b",
            "a_b",
            "a_3ab",
            "A:b",
            "a.b",
            "a b",
            "a::b",
            "é",
            "e\u{301}",
            "ａ",
            "a",
            "h-a",
            "k-a",
            "_",
            "-",
            "assistant",
            &long,
            &format!("{long}y"),
            &"ü".repeat(60),
            &"ü".repeat(61),
        ]
        .map(str::to_owned);
        let names: HashSet<String> = keys.iter().map(|key| own(key)).collect();
        assert_eq!(names.len(), keys.len());
        assert_eq!(own("agent:main"), "k-agent_3amain");
        assert!(!names.contains(ASSISTANT));
    }

    proptest! {
        #[test]
        fn a_name_has_the_allowed_form_and_can_be_read_back(key in "\\PC{1,64}") {
            prop_assume!(SessionKey::parse(&key).is_ok());
            let name = own(&key);
            prop_assert!(name.len() <= LONGEST);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'));
            if let Some(written) = name.strip_prefix("k-") {
                let mut bytes = Vec::new();
                let mut rest = written.as_bytes();
                while let Some((first, others)) = rest.split_first() {
                    if *first == b'_' {
                        bytes.push(u8::from_str_radix(std::str::from_utf8(&others[..2]).unwrap(), 16).unwrap());
                        rest = &others[2..];
                    } else {
                        bytes.push(*first);
                        rest = others;
                    }
                }
                prop_assert_eq!(String::from_utf8(bytes).unwrap(), key);
            }
        }
    }

    #[test]
    fn tenants_and_stores_have_workspaces_of_their_own() {
        let workspaces: HashSet<String> =
            [("aa", 1), ("aa", 2), ("bb", 1)].map(|(store, tenant)| own_workspace(store, TenantId(tenant))).into();
        assert_eq!(workspaces.len(), 3);
        assert_eq!(hermes_workspace(TenantId(1), true), "hermes");
        assert_eq!(hermes_workspace(TenantId(2), false), "hermes_2");
    }

    #[test]
    fn hermes_names_are_those_that_hermes_gave() {
        assert_eq!(of_hermes("agent:main:webui:dm:user-42"), "agent-main-webui-dm-user-42");
        assert_eq!(of_hermes("  a:: b! "), "a-b");
        assert_eq!(of_hermes("a:b"), of_hermes("a-b"), "which is why they are not the default");
        let long = format!("agent:{}", "room/".repeat(40));
        let name = of_hermes(&long);
        assert!(name.len() <= 100 && name.starts_with("agent-room-room-"), "{name}");
        assert_eq!(name.rsplit('-').next().unwrap(), &hash(&long)[..8]);
        assert_eq!(Names::of_hermes(TenantId(1), true, &SessionKey::parse("::").unwrap()), None);
        let names = Names::of_hermes(TenantId(1), true, &SessionKey::parse("a:b").unwrap()).unwrap();
        assert_eq!((names.peer.as_str(), names.assistant), ("user-default-a-b", "hermes"));
    }
}

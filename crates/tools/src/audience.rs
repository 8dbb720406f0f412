//! Whose turns may use a server.

use herma_model::session_key::matches;

use crate::settings::ServerSettings;

/// Whose turn it is.
#[derive(Debug, Clone, Copy)]
pub struct Audience<'a> {
    /// The turn's tenant.
    pub tenant: &'a str,
    /// The turn's session key.
    pub session_key: Option<&'a str>,
}

impl Audience<'_> {
    /// Whether the settings let this turn use the server.
    ///
    /// A server with patterns for session keys is closed to turns without a key.
    pub(crate) fn may_use(self, settings: &ServerSettings) -> bool {
        let tenant = settings.tenants.is_empty() || settings.tenants.iter().any(|tenant| tenant == self.tenant);
        let key = settings.session_keys.is_empty()
            || self.session_key.is_some_and(|key| settings.session_keys.iter().any(|pattern| matches(pattern, key)));
        tenant && key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Transport;

    #[test]
    fn tenants_and_session_keys_both_have_to_fit() {
        let transport = Transport::Http { url: String::new(), headers: Vec::new() };
        let settings = |tenants: &[&str], keys: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect();
            let settings = ServerSettings::new("x", transport.clone());
            ServerSettings { tenants: owned(tenants), session_keys: owned(keys), ..settings }
        };
        for (tenants, keys, tenant, key, expected) in [
            (&[][..], &[][..], "a", None, true),
            (&["a"], &[], "a", None, true),
            (&["a"], &[], "b", None, false),
            (&["a*"], &[], "ab", None, false),
            (&[], &["agent:*"], "a", Some("agent:1"), true),
            (&[], &["agent:*"], "a", Some("other"), false),
            (&[], &["agent:*"], "a", None, false),
            (&["b"], &["*"], "a", Some("k"), false),
        ] {
            let audience = Audience { tenant, session_key: key };
            assert_eq!(audience.may_use(&settings(tenants, keys)), expected, "{tenants:?} {keys:?} {tenant} {key:?}");
        }
    }
}

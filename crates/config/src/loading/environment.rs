//! Settings from environment variables: short names for common settings, `HERMA_<SECTION>__<KEY>` for all others.

use std::collections::BTreeMap;

use crate::error::Origin;
use crate::reading::nearest::nearest;
use crate::reading::section::TextSettings;

/// Variables with a short name, and the setting of each.
const SHORT: [(&str, &str); 7] = [
    ("HERMA_STORE", "store.url"),
    ("HERMA_LISTEN", "server.listen"),
    ("HERMA_UPSTREAM", "upstream.base_url"),
    ("HERMA_UPSTREAM_API_KEY", "upstream.api_key"),
    ("HERMA_MODEL", "upstream.model"),
    ("HERMA_CONTEXT_WINDOW", "upstream.context_window"),
    ("HERMA_LOG", "telemetry.log"),
];
/// Variables that do not belong to a section.
const OTHER: [&str; 3] = ["HERMA_DATA", "HERMA_CONFIG", "HERMA_API_KEY"];

/// What other programs call such variables, after `HERMA_`, and the variable of each.
const ELSEWHERE: [(&str, &str); 4] =
    [("PORT", "HERMA_LISTEN"), ("HOST", "HERMA_LISTEN"), ("BASE_URL", "HERMA_UPSTREAM"), ("LOG_LEVEL", "HERMA_LOG")];
/// What all variables begin with.
const PREFIX: &str = "HERMA_";

/// The environment that the caller passed in. An empty variable counts as not set.
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Keeps the variables that are not empty.
    pub(crate) fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(variables.into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// The value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The settings by dotted key, and notices about unknown `HERMA_*` variables and about variables that contradict
    /// each other.
    pub(crate) fn settings(&self) -> (TextSettings, Vec<String>) {
        let mut texts = TextSettings::new();
        let mut notices = Vec::new();
        for (name, value) in self.0.range(PREFIX.to_owned()..) {
            let Some(rest) = name.strip_prefix(PREFIX) else { break };
            if let Some((section, key)) = rest.split_once("__") {
                let key = format!("{}.{}", section.to_lowercase(), key.to_lowercase());
                texts.insert(key, (value.clone(), Origin::Variable(name.clone())));
            } else if !OTHER.contains(&name.as_str()) && !SHORT.iter().any(|(short, _)| short == name) {
                notices.push(unknown_variable(rest));
            }
        }
        for (name, key) in SHORT {
            let Some(value) = self.get(name) else { continue };
            let before = texts.insert(key.to_owned(), (value.to_owned(), Origin::Variable(name.to_owned())));
            if let Some((other, Origin::Variable(other_name))) = before
                && other != value
            {
                notices.push(format!("{name} and {other_name} both set `{key}` and differ; {name} is used"));
            }
        }
        (texts, notices)
    }
}

/// The notice about a variable, given what follows its prefix. The prefix would make all names look alike.
fn unknown_variable(rest: &str) -> String {
    let known = SHORT.iter().map(|(short, _)| *short).chain(OTHER).filter_map(|name| name.strip_prefix(PREFIX));
    let elsewhere = ELSEWHERE.into_iter().find_map(|(name, variable)| (name == rest).then(|| variable.to_owned()));
    match elsewhere.or_else(|| nearest(rest, known).map(|nearest| format!("{PREFIX}{nearest}"))) {
        Some(nearest) => format!("{PREFIX}{rest} is no variable of Herma's and has no effect; did you mean {nearest}?"),
        None => format!(
            "{PREFIX}{rest} is no variable of Herma's and has no effect; settings are written HERMA_<SECTION>__<KEY>, such as \
             HERMA_ADMISSION__QUEUE_LIMIT"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notices(variables: &[(&str, &str)]) -> Vec<String> {
        Environment::new(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))).settings().1
    }

    #[test]
    fn an_unknown_variable_is_reported_and_not_refused() {
        assert_eq!(
            notices(&[("HERMA_LISTN", "x"), ("HERMA", "x"), ("HERMAN", "x"), ("PATH", "x")]),
            ["HERMA_LISTN is no variable of Herma's and has no effect; did you mean HERMA_LISTEN?"]
        );
        assert!(
            notices(&[("HERMA_DATA", "x"), ("HERMA_CONFIG", "x"), ("HERMA_API_KEY", "x"), ("HERMA_ODD", "")])
                .is_empty()
        );
    }

    #[test]
    fn a_variable_that_other_programs_have_leads_to_the_one_of_herma() {
        for (name, meant) in [
            ("HERMA_PORT", "did you mean HERMA_LISTEN?"),
            ("HERMA_BASE_URL", "did you mean HERMA_UPSTREAM?"),
            ("HERMA_STOR", "did you mean HERMA_STORE?"),
            ("HERMA_COLOUR", "settings are written HERMA_<SECTION>__<KEY>"),
        ] {
            let told = notices(&[(name, "x")]);
            assert!(told.len() == 1 && told[0].contains(meant), "{told:?}");
        }
    }

    #[test]
    fn two_variables_of_one_setting_are_reported_if_they_differ() {
        assert!(notices(&[("HERMA_MODEL", "a"), ("HERMA_UPSTREAM__MODEL", "a")]).is_empty());
        assert_eq!(
            notices(&[("HERMA_MODEL", "a"), ("HERMA_UPSTREAM__MODEL", "b")]),
            ["HERMA_MODEL and HERMA_UPSTREAM__MODEL both set `upstream.model` and differ; HERMA_MODEL is used"]
        );
    }
}

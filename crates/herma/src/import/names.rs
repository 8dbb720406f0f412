//! Names of Hermes' Responses API: slugs and response ids, by the session that they lead to.

use std::collections::HashMap;
use std::path::Path;

use herma_model::Alias;
use herma_store_sqlite::hermes::{GivenName, HermesError, ResponseStore};

use super::report::Problem;

/// The file name of Hermes' store of responses.
const FILE: &str = "response_store.db";

/// Names by the session they lead to.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, Vec<Alias>>);

impl Names {
    /// Reads the given store, else the one beside the database if it exists.
    pub(super) fn read(state: &Path, given: Option<&Path>) -> Result<(Self, Vec<Problem>), HermesError> {
        let beside = state.with_file_name(FILE);
        let Some(path) = given.or_else(|| beside.exists().then_some(&*beside)) else { return Ok(Default::default()) };
        Ok(Self::sort(ResponseStore::open(path)?.names()?))
    }

    fn sort(given: Vec<GivenName>) -> (Self, Vec<Problem>) {
        let (mut names, mut problems) = (Self::default(), Vec::new());
        for GivenName { name, session } in given {
            let alias = Alias::parse(&name).map_err(|why| why.to_string());
            let reserved = || "it has the form of an id that only Herma gives".to_owned();
            match (alias.and_then(|alias| alias.may_be_created().then_some(alias).ok_or_else(reserved)), session) {
                (Ok(alias), Some(session)) => names.0.entry(session).or_default().push(alias),
                (Ok(_), None) => {
                    problems.push(Problem::other(format!("the name {name} leads to no session in Hermes")));
                }
                (Err(why), _) => problems.push(Problem::other(format!("the name {name} cannot be taken over: {why}"))),
            }
        }
        (names, problems)
    }

    /// Removes and returns the names that lead to these sessions.
    pub(super) fn take(&mut self, sessions: &[String]) -> Vec<Alias> {
        sessions.iter().filter_map(|session| self.0.remove(session)).flatten().collect()
    }

    /// The names that were not taken, as problems: their sessions are not in the database.
    pub(super) fn left_over(self) -> Vec<Problem> {
        let mut left: Vec<(String, Alias)> = self
            .0
            .into_iter()
            .flat_map(|(session, names)| names.into_iter().map(move |name| (session.clone(), name)))
            .collect();
        left.sort_by(|one, other| one.1.as_str().cmp(other.1.as_str()));
        let nowhere = |(session, name)| {
            Problem::other(format!("the name {name} leads to session {session}, which is not in the database"))
        };
        left.into_iter().map(nowhere).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_with_their_session_and_the_rest_is_reported() {
        let given = |name: &str, session: Option<&str>| GivenName {
            name: name.to_owned(),
            session: session.map(str::to_owned),
        };
        let (mut names, problems) = Names::sort(vec![
            given("trip", Some("a")),
            given("resp_0123456789abcdef0123456789ab", Some("b")),
            given("conv_mine", Some("a")),
            given("../x", Some("a")),
            given("lost", None),
            given("stray", Some("gone")),
        ]);
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 3);
        for (told, name) in told.iter().zip(["conv_mine", "../x", "lost"]) {
            assert!(told.contains(name), "{told}");
        }
        let taken = names.take(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(taken.iter().map(Alias::as_str).collect::<Vec<_>>(), ["trip", "resp_0123456789abcdef0123456789ab"]);
        assert!(names.left_over()[0].to_string().contains("stray"));
    }
}

//! Which of a server's tools are offered, under which name and with which approval.

use std::collections::BTreeSet;
use std::sync::Arc;

use herma_model::session_key::matches;

use crate::names;
use crate::settings::{Approval, ServerSettings};
use crate::tool::Tool;

/// A tool as its server lists it.
#[derive(Debug, Clone)]
pub(crate) struct ListedTool {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The text of a JSON object.
    pub(crate) input_schema: String,
    pub(crate) read_only: bool,
}

/// The tools that the lists leave, denied ones included, ordered by offered name.
///
/// Names are given to the whole list, so that `allow` and `deny` never rename a tool.
pub(crate) fn tools(settings: &ServerSettings, label_is_hashed: bool, listed: &[ListedTool]) -> Vec<Arc<Tool>> {
    let server: Arc<str> = Arc::from(settings.label.as_str());
    let names = names::offered(&settings.label, label_is_hashed, listed.iter().map(|tool| tool.name.as_str()));
    let mut seen = BTreeSet::new();
    let wanted = listed.iter().filter(|tool| is_wanted(settings, &tool.name) && seen.insert(tool.name.as_str()));
    let offered = wanted.filter_map(|tool| {
        Some(Arc::new(Tool {
            name: Arc::from(names.get(tool.name.as_str())?.as_str()),
            server: server.clone(),
            tool: Arc::from(tool.name.as_str()),
            description: Arc::from(tool.description.as_str()),
            input_schema: Arc::from(tool.input_schema.as_str()),
            read_only: tool.read_only,
            approval: approval(settings, tool),
        }))
    });
    let mut offered: Vec<Arc<Tool>> = offered.collect();
    offered.sort_by(|a, b| a.name.cmp(&b.name));
    offered
}

fn is_wanted(settings: &ServerSettings, tool: &str) -> bool {
    let listed = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, tool));
    !tool.is_empty() && !listed(&settings.deny) && (settings.allow.is_empty() || listed(&settings.allow))
}

fn approval(settings: &ServerSettings, tool: &ListedTool) -> Approval {
    let own = settings.approvals.get(&tool.name).copied();
    own.or(settings.approval).unwrap_or(if tool.read_only { Approval::Auto } else { Approval::Ask })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Transport;

    fn listed(name: &str, read_only: bool) -> ListedTool {
        ListedTool { name: name.to_owned(), description: String::new(), input_schema: "{}".to_owned(), read_only }
    }

    fn settings() -> ServerSettings {
        ServerSettings::new("s", Transport::Http { url: String::new(), headers: Vec::new() })
    }

    fn offered(settings: &ServerSettings, names: &[&str]) -> Vec<String> {
        let listed: Vec<ListedTool> = names.iter().map(|name| listed(name, false)).collect();
        tools(settings, false, &listed).iter().map(|tool| tool.tool.to_string()).collect()
    }

    #[test]
    fn deny_wins_over_allow_and_an_empty_allow_means_all() {
        let names = ["read_a", "read_b", "write", "", "write"];
        assert_eq!(offered(&settings(), &names), ["read_a", "read_b", "write"]);
        let allow = vec!["read_*".to_owned()];
        let deny = vec!["*_b".to_owned(), "write".to_owned()];
        assert_eq!(offered(&ServerSettings { allow: allow.clone(), ..settings() }, &names), ["read_a", "read_b"]);
        assert_eq!(offered(&ServerSettings { allow, deny: deny.clone(), ..settings() }, &names), ["read_a"]);
        assert_eq!(offered(&ServerSettings { deny, ..settings() }, &names), ["read_a"]);
    }

    #[test]
    fn the_approval_of_the_tool_goes_before_that_of_the_server_and_of_the_hint() {
        let of = |settings: &ServerSettings, read_only| tools(settings, false, &[listed("t", read_only)])[0].approval;
        assert_eq!(of(&settings(), true), Approval::Auto);
        assert_eq!(of(&settings(), false), Approval::Ask);
        let denied = ServerSettings { approval: Some(Approval::Deny), ..settings() };
        assert_eq!(of(&denied, true), Approval::Deny);
        let approvals = [("t".to_owned(), Approval::Auto)].into();
        assert_eq!(of(&ServerSettings { approvals, ..denied }, false), Approval::Auto);
    }
}

//! The names by which the model knows the client's tools.
//!
//! A plain function keeps its name. A tool of a namespace is `NAMESPACE__tool`, and a custom tool without a namespace
//! keeps its name. If this name cannot be used, is too long or is another tool's too, it ends in a hash. So a tool has
//! the same name in every request, unless a request has another tool of that name.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use herma_model::tool_name::{HASH_DIGITS, LONGEST, allowed, hashed, plain};

use super::ClientTool;

/// The group in the hashed name of a custom tool without a namespace.
const CUSTOM: &str = "custom";

/// The tools that are not plain functions, each once, with their names.
pub(super) fn of(tools: impl IntoIterator<Item = ClientTool>) -> Vec<(String, ClientTool)> {
    let tools: BTreeSet<ClientTool> = tools.into_iter().collect();
    let mut wanted: BTreeMap<Cow<'_, str>, usize> = BTreeMap::new();
    for tool in &tools {
        *wanted.entry(alone(tool)).or_default() += 1;
    }
    let mut taken: BTreeSet<String> =
        tools.iter().filter(|tool| tool.is_plain()).map(|tool| tool.name.clone()).collect();
    let mut named = Vec::new();
    for tool in tools.iter().filter(|tool| !tool.is_plain()) {
        let name = alone(tool);
        let is_free = wanted.get(&name) == Some(&1);
        let hashes = HASH_DIGITS.iter().map(|&digits| with_hash(tool, digits));
        let name = is_free.then(|| name.into_owned()).into_iter().chain(hashes).find(|name| !taken.contains(name));
        // Only a client that computes all four hashes can take them all. Its tool cannot be called then.
        if let Some(name) = name {
            taken.insert(name.clone());
            named.push((name, tool.clone()));
        }
    }
    named
}

/// The name of a tool if no other tool has it.
pub(super) fn alone(tool: &ClientTool) -> Cow<'_, str> {
    let Some(namespace) = tool.namespace.as_deref() else { return Cow::Borrowed(&tool.name) };
    let name = plain(namespace, &tool.name);
    let is_as_written = allowed(namespace) == namespace && allowed(&tool.name) == tool.name;
    Cow::Owned(if is_as_written && name.len() <= LONGEST { name } else { with_hash(tool, HASH_DIGITS[0]) })
}

fn with_hash(tool: &ClientTool, digits: usize) -> String {
    hashed(tool.namespace.as_deref().unwrap_or(CUSTOM), &tool.name, digits)
}

#[cfg(test)]
mod tests {
    use super::super::ClientTools;
    use super::*;

    fn tool(namespace: &str, name: &str) -> ClientTool {
        let namespace = (!namespace.is_empty()).then(|| namespace.to_owned());
        ClientTool { name: name.to_owned(), namespace, custom: false }
    }

    fn custom(namespace: &str, name: &str) -> ClientTool {
        ClientTool { custom: true, ..tool(namespace, name) }
    }

    fn names(tools: &[ClientTool]) -> Vec<String> {
        let named = ClientTools::of(tools.iter().cloned());
        tools.iter().map(|tool| named.model_name(tool).into_owned()).collect()
    }

    #[test]
    fn a_tool_has_the_name_of_its_namespace_before_its_own() {
        let tools = [tool("", "look"), tool("agents", "close"), custom("functions", "exec"), custom("", "patch")];
        assert_eq!(names(&tools), ["look", "agents__close", "functions__exec", "patch"]);
    }

    #[test]
    fn names_that_no_server_would_take_are_replaced_and_end_in_a_hash() {
        let long = "n".repeat(70);
        for tool in [tool(&long, "f"), tool("a", &long), tool("my tools", "f"), tool("a.b", "f"), tool("é", "f")] {
            let name = alone(&tool).into_owned();
            assert!(name.len() <= LONGEST && allowed(&name) == name, "{name}");
            assert_eq!(names(&[tool]), [name]);
        }
        assert_ne!(alone(&tool("a.b", "f")), alone(&tool("a_b", "f")));
    }

    #[test]
    fn two_tools_never_share_a_name_in_whatever_order_they_come() {
        let tools = [
            tool("", "a__b__c"),
            tool("a", "b__c"),
            tool("a__b", "c"),
            custom("a", "b__c"),
            tool("", "exec"),
            custom("", "exec"),
            tool("", &hashed("a__b", "c", 8)),
        ];
        let all = names(&tools);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), tools.len(), "{all:?}");
        assert_eq!((&*all[0], &*all[4]), ("a__b__c", "exec"), "a plain function keeps its name");
        let backwards: Vec<ClientTool> = tools.into_iter().rev().collect();
        let mut reversed = names(&backwards);
        reversed.reverse();
        assert_eq!(all, reversed);
    }
}

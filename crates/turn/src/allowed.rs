//! Which of its tools a client lets the model call. The model is shown all of them, so that the beginning of its
//! context does not change.

use herma_model::Params;
use herma_model::generation::ToolCall;
use serde_json::Value;

/// The tools that may be called: all of them, unless the request names some.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedTools(Option<Vec<String>>);

impl AllowedTools {
    /// Reads `tool_choice` of chat completions. A model server may ignore it, so the answer is checked too.
    pub fn of(params: &Params) -> Self {
        let choice = params.get("tool_choice").filter(|json| json.starts_with('{'));
        let Some(choice) = choice.and_then(|json| serde_json::from_str::<Value>(json).ok()) else {
            return Self::default();
        };
        if choice["type"] != "allowed_tools" {
            return Self::default();
        }
        let allowed = &choice["allowed_tools"];
        let tools = allowed["tools"].as_array().filter(|_| allowed["mode"] != "none");
        let tools = tools.into_iter().flatten();
        let names = tools.filter_map(|tool| tool["function"]["name"].as_str().or(tool["custom"]["name"].as_str()));
        Self(Some(names.map(str::to_owned).collect()))
    }

    /// Whether a tool of this name may be called.
    pub fn permits(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|allowed| allowed.iter().any(|allowed| allowed == name))
    }

    /// The first call of a streamed answer whose name cannot become that of an allowed tool any more.
    pub(crate) fn breach<'a>(&self, begun: &'a [ToolCall]) -> Option<&'a str> {
        self.first_other(begun, |allowed, name| allowed.starts_with(name))
    }

    /// The first call of an answer that is not allowed.
    pub(crate) fn breach_of_answer<'a>(&self, calls: &'a [ToolCall]) -> Option<&'a str> {
        self.first_other(calls, |allowed, name| allowed == name)
    }

    fn first_other<'a>(&self, calls: &'a [ToolCall], is_it: fn(&str, &str) -> bool) -> Option<&'a str> {
        let allowed = self.0.as_ref()?;
        let names = calls.iter().map(|call| call.name.as_str());
        names.into_iter().find(|name| !allowed.iter().any(|allowed| is_it(allowed, name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(choice: &str) -> AllowedTools {
        AllowedTools::of(&Params(vec![("tool_choice".into(), choice.into())]))
    }

    fn call(name: &str) -> [ToolCall; 1] {
        [ToolCall { name: name.to_owned(), ..ToolCall::default() }]
    }

    #[test]
    fn only_a_list_of_allowed_tools_forbids_any() {
        for choice in ["\"auto\"", "\"none\"", r#"{"type":"function","function":{"name":"f"}}"#, "{"] {
            assert_eq!(allowed(choice), AllowedTools::default(), "{choice}");
        }
        assert_eq!(AllowedTools::default().breach_of_answer(&call("g")), None);
        let tools = r#""tools":[{"type":"function","function":{"name":"look"}}]"#;
        let some = allowed(&format!(r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"auto",{tools}}}}}"#));
        assert_eq!((some.breach_of_answer(&call("look")), some.breach_of_answer(&call("lo"))), (None, Some("lo")));
        let none = allowed(&format!(r#"{{"type":"allowed_tools","allowed_tools":{{"mode":"none",{tools}}}}}"#));
        assert_eq!(none.breach_of_answer(&call("look")), Some("look"));
    }

    #[test]
    fn a_name_that_is_not_whole_may_still_become_one_that_is_allowed() {
        let some = AllowedTools(Some(vec!["look".to_owned()]));
        assert_eq!((some.breach(&call("")), some.breach(&call("lo"))), (None, None));
        assert_eq!(some.breach(&call("lost")), Some("lost"));
    }
}

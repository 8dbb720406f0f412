//! The client's tools that the model knows by another name or in another form.
//!
//! Model servers have functions, and nothing else. A function of a namespace is offered to them under a name of its
//! own, and a custom tool as a function with one text. The transcript has the call as the model made it. How the client
//! knows it is stored beside the message.

mod custom;
mod names;

use std::borrow::Cow;

use herma_model::CallId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use custom::{CustomInput, INPUT, arguments_of, input_of};

/// A tool, as its client knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientTool {
    /// Its name. Unique within its namespace.
    pub name: String,
    /// Its namespace, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Whether it takes a text in place of arguments.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub custom: bool,
}

impl ClientTool {
    /// Whether the model knows it by the same name and in the same form.
    pub(crate) const fn is_plain(&self) -> bool {
        self.namespace.is_none() && !self.custom
    }
}

/// A call of a client's tool that is not a plain function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClientCall {
    /// The id of the call in its message.
    pub(crate) id: CallId,
    #[serde(flatten)]
    pub(crate) tool: ClientTool,
}

/// The tools of a request that are not plain functions, by the names that the model knows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientTools(Vec<(String, ClientTool)>);

impl ClientTools {
    /// Names the tools of a request. The names depend on which tools there are, not on their order.
    pub(crate) fn of(tools: impl IntoIterator<Item = ClientTool>) -> Self {
        Self(names::of(tools))
    }

    /// Reads the `tools` that a response repeats. They have the same names as in the request.
    pub(crate) fn of_repeated(json: Option<&str>) -> Self {
        // Most clients have functions only. Then nothing has to be read.
        let is_other = |json: &&str| ["\"namespace\"", "\"custom\""].iter().any(|kind| json.contains(kind));
        let tools: Vec<Value> =
            json.filter(is_other).and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        Self::of(tools.iter().flat_map(|tool| match tool["type"].as_str() {
            Some("namespace") => {
                let listed = tool["tools"].as_array().into_iter().flatten();
                listed.filter_map(|inner| repeated(inner, tool["name"].as_str())).collect()
            }
            _ => Vec::from_iter(repeated(tool, None)),
        }))
    }

    /// The tool that the model calls by this name. `None` if it is a plain function, or unknown.
    pub(crate) fn called(&self, name: &str) -> Option<&ClientTool> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, tool)| tool)
    }

    /// The name by which the model knows a tool. A tool that the request does not list has the name that it would have
    /// alone.
    pub(crate) fn model_name<'a>(&'a self, tool: &'a ClientTool) -> Cow<'a, str> {
        match self.0.iter().find(|(_, known)| known == tool) {
            Some((name, _)) => Cow::Borrowed(name),
            None => names::alone(tool),
        }
    }
}

fn repeated(tool: &Value, namespace: Option<&str>) -> Option<ClientTool> {
    let custom = match tool["type"].as_str()? {
        "function" => false,
        "custom" => true,
        _ => return None,
    };
    let name = tool["name"].as_str()?.to_owned();
    Some(ClientTool { name, namespace: namespace.map(str::to_owned), custom })
}

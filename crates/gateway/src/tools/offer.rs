//! Which tools of Herma a turn is offered, and how the model server is told of them.

use std::sync::Arc;

use herma_model::tool::BUILT_IN;
use herma_model::{ConversationFacts, Params};
use herma_tools::{Approval, Audience, Tool};
use herma_turn::{AllowedTools, CallPlace, OwnTools, ToolRules};
use serde_json::{Value, json};

use super::built_in::BuiltIn;
use super::session::SessionTools;
use crate::answer::holds_text;
use crate::gateway::Gateway;
use crate::memory::is_recorded;
use crate::request::{ToolOffer, TurnRequest};

/// A tool that a turn is offered.
#[derive(Debug, Clone)]
pub(crate) enum Offered {
    /// Of an MCP server.
    Server(Arc<Tool>),
    /// Of Herma itself.
    BuiltIn(BuiltIn),
    /// Of the session.
    Session(Arc<Tool>, Arc<SessionTools>),
}

impl Offered {
    /// The name that the model sees.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Server(tool) | Self::Session(tool, _) => &tool.name,
            Self::BuiltIn(tool) => tool.name(),
        }
    }

    /// The label of its server.
    pub(crate) fn server(&self) -> &str {
        match self {
            Self::Server(tool) | Self::Session(tool, _) => &tool.server,
            Self::BuiltIn(_) => BUILT_IN,
        }
    }

    /// Its server's own name for it.
    pub(crate) fn tool(&self) -> &str {
        match self {
            Self::Server(tool) | Self::Session(tool, _) => &tool.tool,
            Self::BuiltIn(tool) => tool.name(),
        }
    }

    pub(crate) fn approval(&self) -> Approval {
        match self {
            Self::Server(tool) | Self::Session(tool, _) => tool.approval,
            Self::BuiltIn(_) => Approval::Auto,
        }
    }

    /// Whether it is marked as one that changes nothing.
    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Self::Server(tool) | Self::Session(tool, _) => tool.read_only,
            Self::BuiltIn(tool) => tool.is_read_only(),
        }
    }

    /// The tool as chat completions describe one.
    fn definition(&self) -> Value {
        let (description, parameters) = match self {
            Self::Server(tool) | Self::Session(tool, _) => {
                (&*tool.description, serde_json::from_str(&tool.input_schema).unwrap_or(Value::Null))
            }
            Self::BuiltIn(tool) => (tool.description(), tool.schema()),
        };
        json!({
            "type": "function",
            "function": { "name": self.name(), "description": description, "parameters": parameters },
        })
    }
}

/// The tools of Herma that a turn is offered. Empty for most turns.
#[derive(Debug, Default)]
pub(crate) struct TurnTools {
    offered: Vec<Offered>,
    /// The names of the client's own tools.
    client: Vec<String>,
    max_rounds: u32,
    /// The fields for the model server with these tools: of the first call, of later ones, of the last one.
    params: Option<[Arc<Params>; 3]>,
}

impl TurnTools {
    /// The fields for the model server of a call.
    pub(crate) fn params(&self, asked: &Arc<Params>, place: CallPlace) -> Arc<Params> {
        let Some([first, later, last]) = &self.params else { return without_idle_fields(asked) };
        Arc::clone(match place {
            CallPlace::First => first,
            CallPlace::Later => later,
            CallPlace::Last => last,
        })
    }

    /// What the machine has to know of the turn's tools.
    pub(crate) fn rules(&self, request: &TurnRequest) -> ToolRules {
        let params = &request.options.params;
        let rules = ToolRules::of_client(AllowedTools::of(params));
        if self.params.is_none() {
            return rules;
        }
        rules.offering(OwnTools {
            client: self.client.clone(),
            max_calls: self.max_rounds,
            holds_text: holds_text(request),
        })
    }

    /// The tool of this name, if the turn is offered it.
    pub(crate) fn find(&self, name: &str) -> Option<&Offered> {
        self.offered.iter().find(|tool| tool.name() == name)
    }

    /// Whether a call of this name is a client's to answer.
    pub(crate) fn is_clients(&self, name: &str) -> bool {
        self.client.iter().any(|client| client == name)
    }
}

impl Gateway {
    /// The tools that a turn is offered. Starts servers that it may use and that do not run, and waits a little for
    /// them. Cancel-safe.
    pub(crate) async fn offer(&self, request: &TurnRequest, facts: &ConversationFacts) -> TurnTools {
        let is_off = request.options.tools == ToolOffer::Off;
        let choice = request.options.params.get("tool_choice");
        let has_none = self.settings.tools.offer_nothing() && request.options.session_tools.is_none();
        if has_none || is_off || choice == Some("\"none\"") {
            return TurnTools::default();
        }
        // On the heap, so that turns without tools do not carry its state.
        Box::pin(self.gather_tools(request, facts, choice)).await
    }

    async fn gather_tools(&self, request: &TurnRequest, facts: &ConversationFacts, choice: Option<&str>) -> TurnTools {
        let settings = &self.settings.tools;
        let params = &request.options.params;
        let client = client_tools(params);
        let (depth, max_rounds) = match request.options.tools {
            ToolOffer::Delegated { depth } => (depth, settings.delegate.max_rounds.min(settings.max_rounds)),
            ToolOffer::AsConfigured | ToolOffer::Off => (0, settings.max_rounds),
        };
        let may_delegate = depth < settings.delegate.max_depth;
        // A turn that is not recorded learns nothing for later ones either.
        let may_remember = self.memory.provider.is_some() && facts.session_key.is_some() && is_recorded(request, facts);
        let built_in = settings.built_in.iter().filter(|tool| match tool {
            BuiltIn::DelegateTask => may_delegate,
            BuiltIn::Memory => may_remember,
            BuiltIn::SessionSearch | BuiltIn::SessionRead => true,
        });
        let mut offered: Vec<Offered> = built_in.copied().map(Offered::BuiltIn).collect();
        let tenant = &request.caller.principal.tenant_name;
        let session_key = facts.session_key.as_ref().map(|key| key.as_str());
        let servers = self.toolbox.offered(Audience { tenant, session_key }).await;
        offered.extend(servers.into_iter().map(Offered::Server));
        if let Some(session) = &request.options.session_tools {
            for tool in session.offered().await {
                // A configured tool of the same name wins.
                if !offered.iter().any(|known| known.name() == &*tool.name) {
                    offered.push(Offered::Session(tool, Arc::clone(session)));
                }
            }
        }
        let allowed = AllowedTools::of(params);
        offered.retain(|tool| !client.iter().any(|name| name == tool.name()) && allowed.permits(tool.name()));
        if offered.is_empty() {
            return TurnTools::default();
        }
        let tools = merged(params.get("tools"), &offered);
        let with = |choice: Option<Arc<str>>| Arc::new(with_tools(params, &tools, choice));
        let params = [with(choice.map(Arc::from)), with(choice.map(unforced)), with(Some(Arc::from("\"none\"")))];
        TurnTools { offered, client, max_rounds, params: Some(params) }
    }
}

/// The names of the tools that a request brings.
fn client_tools(params: &Params) -> Vec<String> {
    let tools: Option<Value> = params.get("tools").and_then(|json| serde_json::from_str(json).ok());
    let tools = tools.as_ref().and_then(Value::as_array).into_iter().flatten();
    let name = |tool: &Value| tool["function"]["name"].as_str().or(tool["custom"]["name"].as_str()).map(str::to_owned);
    tools.filter_map(name).collect()
}

/// The client's tools and Herma's, as one JSON list.
fn merged(client: Option<&str>, offered: &[Offered]) -> Arc<str> {
    let mut tools: Vec<Value> = client.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    tools.extend(offered.iter().map(Offered::definition));
    Arc::from(Value::Array(tools).to_string())
}

fn with_tools(params: &Params, tools: &Arc<str>, choice: Option<Arc<str>>) -> Params {
    let rest = params.0.iter().filter(|(name, _)| !matches!(&**name, "tools" | "tool_choice"));
    let mut fields: Vec<(Box<str>, Arc<str>)> = rest.cloned().collect();
    fields.push(("tools".into(), Arc::clone(tools)));
    fields.extend(choice.map(|choice| ("tool_choice".into(), choice)));
    Params(fields)
}

/// The fields without those about tools, if there are no tools: some model servers refuse them. A choice that forces a
/// call stays, so that the client is told.
pub(crate) fn without_idle_fields(params: &Arc<Params>) -> Arc<Params> {
    let is_idle = |name: &str, value: &str| match name {
        "tool_choice" => matches!(value, "\"none\"" | "\"auto\""),
        "parallel_tool_calls" => true,
        _ => false,
    };
    let is_idle = |(name, value): &(Box<str>, Arc<str>)| is_idle(name, value);
    if params.get("tools").is_some() || !params.0.iter().any(is_idle) {
        return Arc::clone(params);
    }
    Arc::new(Params(params.0.iter().filter(|field| !is_idle(field)).cloned().collect()))
}

/// A choice that forces no call. One that forces a call holds for the first model call of a turn.
fn unforced(choice: &str) -> Arc<str> {
    let Ok(mut parsed) = serde_json::from_str::<Value>(choice) else { return Arc::from(choice) };
    if parsed["type"] == "allowed_tools" {
        parsed["allowed_tools"]["mode"] = json!("auto");
        return Arc::from(parsed.to_string());
    }
    Arc::from("\"auto\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(fields: &[(&str, &str)]) -> Params {
        Params(fields.iter().map(|(name, json)| ((*name).into(), Arc::from(*json))).collect())
    }

    #[test]
    fn the_clients_tools_come_first_and_their_names_are_known() {
        let asked = params(&[("tools", r#"[{"type":"function","function":{"name":"ask_user"}}]"#), ("top_p", "1")]);
        assert_eq!(client_tools(&asked), ["ask_user"]);
        let tools = merged(asked.get("tools"), &[Offered::BuiltIn(BuiltIn::SessionSearch)]);
        let listed: Vec<Value> = serde_json::from_str(&tools).unwrap();
        let names: Vec<_> = listed.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["ask_user", "session_search"]);
        let all = with_tools(&asked, &tools, None);
        assert_eq!((all.get("top_p"), all.get("tools")), (Some("1"), Some(&*tools)));
    }

    #[test]
    fn without_tools_nothing_is_said_about_them() {
        let sent = |fields: &[(&str, &str)]| {
            let sent = without_idle_fields(&Arc::new(params(fields)));
            sent.0.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        let none = ("tool_choice", "\"none\"");
        assert_eq!(sent(&[none, ("parallel_tool_calls", "true"), ("top_p", "1")]), ["top_p"]);
        assert_eq!(sent(&[none, ("tools", "[{}]")]), ["tool_choice", "tools"]);
        assert_eq!(sent(&[("tool_choice", "\"required\"")]), ["tool_choice"]);
    }

    #[test]
    fn a_choice_that_forces_a_call_holds_once() {
        assert_eq!(&*unforced("\"required\""), "\"auto\"");
        assert_eq!(&*unforced(r#"{"type":"function","function":{"name":"f"}}"#), "\"auto\"");
        let allowed = unforced(r#"{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}"#);
        assert_eq!(&*allowed, r#"{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}"#);
    }
}

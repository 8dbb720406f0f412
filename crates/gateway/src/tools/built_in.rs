//! The tools that need no server.

mod delegate;
mod memory;
mod search;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use herma_model::{CallId, ConversationFacts, KeyScope, Principal, SessionKey};
use herma_store::Scope;
use herma_telemetry::Trace;
use herma_tools::CallEnd;
use serde_json::{Value, json};

use super::plan::PlannedCall;
use super::session::SessionTools;
use crate::gateway::Gateway;
use crate::request::{MemoryUse, ToolOffer};
use crate::stored_turn::StoredTurn;

/// A tool of Herma itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltIn {
    /// Runs tasks in conversations of their own.
    DelegateTask,
    /// Searches earlier conversations.
    SessionSearch,
    /// Reads an earlier conversation.
    SessionRead,
    /// Adds, changes and forgets facts in long-term memory.
    Memory,
}

impl BuiltIn {
    /// Every built-in tool.
    pub const ALL: [Self; 4] = [Self::DelegateTask, Self::SessionSearch, Self::SessionRead, Self::Memory];

    /// Its name, for the model and in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DelegateTask => herma_model::tool::DELEGATE_TASK,
            Self::SessionSearch => "session_search",
            Self::SessionRead => "session_read",
            Self::Memory => "memory",
        }
    }

    /// Whether it changes nothing.
    pub const fn is_read_only(self) -> bool {
        matches!(self, Self::SessionSearch | Self::SessionRead)
    }

    /// The tool of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// What it does, for the model.
    pub const fn description(self) -> &'static str {
        match self {
            Self::DelegateTask => {
                "Hands tasks to helpers. Each helper works in a conversation of its own and knows only its goal and \
                 context. Several tasks run at the same time. Returns the answer of each helper, in order."
            }
            Self::SessionSearch => {
                "Searches what was said in earlier conversations, also what was summarised since. Returns matches with \
                 the ids of their conversations."
            }
            Self::SessionRead => {
                "Reads messages of an earlier conversation, newest last. Use an id that session_search returned. Pass \
                 `before` from the result to read further back."
            }
            Self::Memory => {
                "Remembers lasting facts about the user for later conversations. Use `add` for something new, and \
                 `change` or `forget` with the id of a fact if it is no longer true. Without an id, the result lists \
                 the facts with their ids."
            }
        }
    }

    /// What it takes, as a JSON schema.
    pub fn schema(self) -> Value {
        match self {
            Self::DelegateTask => json!({
                "type": "object",
                "properties": { "tasks": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "properties": {
                            "goal": { "type": "string", "description": "What to do, and what to answer with." },
                            "context": { "type": "string", "description": "All that the helper has to know." },
                        },
                        "required": ["goal"],
                    },
                } },
                "required": ["tasks"],
            }),
            Self::SessionSearch => json!({
                "type": "object",
                "properties": {
                    "query": { "type": "string", "description": "Words or a quoted phrase." },
                    "limit": { "type": "integer", "minimum": 1, "maximum": 50 },
                },
                "required": ["query"],
            }),
            Self::SessionRead => json!({
                "type": "object",
                "properties": {
                    "id": { "type": "string", "description": "The conversation's id or name." },
                    "before": { "type": "integer", "description": "Only messages before this place." },
                    "limit": { "type": "integer", "minimum": 1, "maximum": 100 },
                },
                "required": ["id"],
            }),
            Self::Memory => json!({
                "type": "object",
                "properties": {
                    "action": { "type": "string", "enum": ["add", "change", "forget"] },
                    "id": { "type": "string", "description": "The fact to change or forget." },
                    "text": { "type": "string", "description": "The fact, as one sentence that can stand alone." },
                },
                "required": ["action"],
            }),
        }
    }

    /// Carries out a call. `arguments` is what the model wrote. Not cancel-safe: delegated work is cancelled.
    pub(crate) async fn call(self, gateway: &Arc<Gateway>, context: &CallContext, arguments: &str) -> CallEnd {
        let arguments = match serde_json::from_str::<Value>(if arguments.trim().is_empty() { "{}" } else { arguments })
        {
            Ok(arguments @ Value::Object(_)) => arguments,
            Ok(_) => return CallEnd::NotMade("the arguments are not a JSON object".to_owned()),
            Err(error) => return CallEnd::NotMade(format!("the arguments are not JSON: {error}")),
        };
        match self {
            Self::DelegateTask => delegate::run(gateway, context, &arguments).await,
            Self::SessionSearch => search::search(gateway, context, &arguments).await,
            Self::SessionRead => search::read(gateway, context, &arguments).await,
            Self::Memory => memory::call(gateway, context, &arguments).await,
        }
    }
}

/// The turn that makes a call, as far as built-in tools have to know it.
pub(crate) struct CallContext {
    pub(crate) call: CallId,
    pub(crate) principal: Principal,
    pub(crate) session_key: Option<SessionKey>,
    pub(crate) facts: Arc<ConversationFacts>,
    pub(crate) model: Option<String>,
    pub(crate) tools: ToolOffer,
    pub(crate) obeys_tool_mode: bool,
    pub(crate) session_tools: Option<Arc<SessionTools>>,
    pub(crate) memory: MemoryUse,
    /// How many children the turn may still make. Calls of the same turn share it.
    pub(crate) children_left: Arc<AtomicU32>,
    /// The place of the call in a trace.
    pub(crate) trace: Trace,
}

impl CallContext {
    /// What the turn may see: conversations of its session key, or those without a key if it has none.
    fn scope(&self) -> Scope {
        Scope::of(&self.limited_principal())
    }

    /// The principal, limited to the turn's session key.
    fn limited_principal(&self) -> Principal {
        Principal { session_keys: KeyScope::Only(self.session_key.clone()), ..self.principal.clone() }
    }
}

impl StoredTurn<'_> {
    /// What a built-in tool has to know of this turn.
    pub(crate) fn call_context(&self, planned: &PlannedCall, trace: Trace) -> CallContext {
        CallContext {
            call: Arc::clone(&planned.call.id),
            principal: self.request.caller.principal.clone(),
            session_key: self.turn.session.facts.session_key.clone(),
            facts: Arc::clone(&self.turn.session.facts),
            model: self.request.options.model.clone(),
            tools: self.request.options.tools,
            obeys_tool_mode: self.request.options.obeys_tool_mode,
            session_tools: self.request.options.session_tools.clone(),
            memory: self.request.options.memory,
            children_left: Arc::clone(&self.children_left),
            trace,
        }
    }
}

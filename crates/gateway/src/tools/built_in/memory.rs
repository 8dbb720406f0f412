//! `memory`: facts about the person, kept for all conversations of the turn's session key.

use std::sync::Arc;

use herma_model::limits::MAX_PAGE;
use herma_model::{Memory, MemoryId, MemorySource};
use herma_tools::CallEnd;
use herma_wire::resource::{memory_text, rfc3339};
use serde_json::{Value, json};

use super::CallContext;
use super::search::{missing, result};
use crate::error::GatewayError;
use crate::gateway::Gateway;
use crate::memory::Memories;

/// How many facts a result lists if the call names none of them.
const LISTED: usize = 20;

/// Adds, changes or forgets a fact.
pub(super) async fn call(gateway: &Arc<Gateway>, context: &CallContext, arguments: &Value) -> CallEnd {
    let memories = gateway.memories(&context.limited_principal());
    let outcome = match arguments["action"].as_str() {
        Some("add") => add(&memories, context, arguments).await,
        Some("change") => change(&memories, arguments).await,
        Some("forget") => forget(&memories, arguments).await,
        _ => return CallEnd::NotMade("`action` must be add, change or forget".to_owned()),
    };
    outcome.unwrap_or_else(|why| why.into_end())
}

/// Why a call did not change anything.
enum NotDone {
    End(CallEnd),
    Error(GatewayError),
}

impl From<GatewayError> for NotDone {
    fn from(error: GatewayError) -> Self {
        Self::Error(error)
    }
}

impl NotDone {
    fn into_end(self) -> CallEnd {
        match self {
            Self::End(end) => end,
            Self::Error(error) => {
                tracing::warn!(%error, "the tool memory failed");
                CallEnd::NotMade("memory cannot be changed now".to_owned())
            }
        }
    }
}

async fn add(memories: &Memories<'_>, context: &CallContext, arguments: &Value) -> Result<CallEnd, NotDone> {
    let text = text(arguments)?;
    let Some(key) = context.session_key.clone() else { return Err(NotDone::End(missing("session key"))) };
    let added = memories.add(key, &text, MemorySource::Tool, Some(context.facts.id)).await?;
    Ok(result(&json!({ "remembered": shown(&added) })))
}

async fn change(memories: &Memories<'_>, arguments: &Value) -> Result<CallEnd, NotDone> {
    let text = text(arguments)?;
    let Some(id) = known(memories, arguments).await? else { return which(memories).await };
    let changed = memories.change(id, &text).await?;
    Ok(result(&json!({ "remembered": shown(&changed) })))
}

async fn forget(memories: &Memories<'_>, arguments: &Value) -> Result<CallEnd, NotDone> {
    let Some(id) = known(memories, arguments).await? else { return which(memories).await };
    memories.forget(id).await?;
    Ok(result(&json!({ "forgotten": id })))
}

fn text(arguments: &Value) -> Result<String, NotDone> {
    let text = arguments["text"].as_str().ok_or_else(|| NotDone::End(missing("text")))?;
    memory_text(text).map_err(|why| NotDone::End(CallEnd::NotMade(format!("`text` {why}"))))
}

/// The fact that a call names. `None` if it names none that exists.
async fn known(memories: &Memories<'_>, arguments: &Value) -> Result<Option<MemoryId>, NotDone> {
    let Some(id) = arguments["id"].as_str().and_then(|id| id.parse().ok()) else { return Ok(None) };
    match memories.show(id).await {
        Ok(memory) => Ok(Some(memory.id)),
        Err(GatewayError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The facts that there are, for a call that names none of them.
async fn which(memories: &Memories<'_>) -> Result<CallEnd, NotDone> {
    let page = memories.list(None, None, LISTED.min(MAX_PAGE)).await?;
    let known: Vec<Value> = page.memories.iter().map(shown).collect();
    let text = json!({ "error": "`id` must be the id of one of these", "memories": known }).to_string();
    Ok(CallEnd::Result { text, is_error: true })
}

fn shown(memory: &Memory) -> Value {
    json!({ "id": memory.id, "text": &*memory.text, "created_at": rfc3339(memory.created_at) })
}

//! The list of a server's tools, page by page, within bounds.

use rmcp::model::{ErrorCode, PaginatedRequestParams, Tool};
use rmcp::service::Peer;
use rmcp::{RoleClient, ServiceError};
use serde_json::{Map, Value};

use crate::offer::ListedTool;

/// So many tools of one server are taken; more are left out.
const MOST_TOOLS: usize = 1000;
/// So many pages are asked for, in case the cursor never ends.
const MOST_PAGES: usize = 1000;
/// So many bytes of names, descriptions and schemas are kept.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// Lists the tools of a server. A server that knows no tools has none.
pub(super) async fn tools(peer: &Peer<RoleClient>) -> Result<Vec<ListedTool>, ServiceError> {
    let mut tools = Vec::new();
    let mut bytes = 0;
    let mut cursor: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let page = match peer.list_tools(Some(params)).await {
            Ok(page) => page,
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => return Ok(tools),
            Err(error) => return Err(error),
        };
        for tool in page.tools {
            let tool = listed(&tool);
            bytes += tool.name.len() + tool.description.len() + tool.input_schema.len();
            if tools.len() == MOST_TOOLS || bytes > MOST_BYTES {
                tracing::warn!("an MCP server lists too many tools; only {} are taken", tools.len());
                return Ok(tools);
            }
            tools.push(tool);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(tools)
}

fn listed(tool: &Tool) -> ListedTool {
    let annotations = tool.annotations.as_ref();
    let title = tool.title.as_deref().or(annotations.and_then(|annotations| annotations.title.as_deref()));
    ListedTool {
        name: tool.name.to_string(),
        description: tool.description.as_deref().or(title).unwrap_or_default().to_owned(),
        input_schema: schema(&tool.input_schema),
        read_only: annotations.and_then(|annotations| annotations.read_only_hint).unwrap_or(false),
    }
}

/// The schema as text. Model servers refuse one that does not say that it is an object's.
fn schema(schema: &Map<String, Value>) -> String {
    let mut schema = schema.clone();
    schema.entry("type").or_insert_with(|| "object".into());
    Value::Object(schema).to_string()
}

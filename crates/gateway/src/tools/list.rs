//! Which tools Herma runs for a caller, and how their servers are.

use std::sync::Arc;

use herma_model::tool::BUILT_IN;
use herma_model::{Principal, SessionKey};
use herma_tools::{Approval, Audience, Status, Tool, ToolRow};

use super::built_in::BuiltIn;
use crate::gateway::Gateway;

impl Gateway {
    /// The tools that turns of this caller may use, denied ones too, and a row for each server that shows none. Starts
    /// servers that do not run, and waits a little for them. Cancel-safe.
    pub async fn tools(&self, principal: &Principal, session_key: Option<&SessionKey>) -> Vec<ToolRow> {
        let audience = Audience { tenant: &principal.tenant_name, session_key: session_key.map(SessionKey::as_str) };
        let mut rows: Vec<ToolRow> = self.settings.tools.built_in.iter().copied().map(BuiltIn::row).collect();
        rows.extend(self.toolbox.rows(audience, true).await);
        rows
    }
}

impl BuiltIn {
    /// The tool as lists show it.
    pub fn row(self) -> ToolRow {
        let server: Arc<str> = Arc::from(BUILT_IN);
        let tool = Tool {
            name: Arc::from(self.name()),
            server: Arc::clone(&server),
            tool: Arc::from(self.name()),
            description: Arc::from(self.description()),
            input_schema: Arc::from(self.schema().to_string()),
            read_only: self.is_read_only(),
            approval: Approval::Auto,
        };
        ToolRow { server, tool: Some(Arc::new(tool)), status: Status::Ready }
    }
}

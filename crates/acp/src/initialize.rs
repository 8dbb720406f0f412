//! `initialize`: what the agent can do.

use serde_json::json;

use crate::agent::{Agent, Answered};
use crate::provenance::hermes_meta;
use crate::schema::{
    AgentCapabilities, Implementation, InitializeRequest, InitializeResponse, McpCapabilities, PromptCapabilities,
    ProtocolVersion, SessionCapabilities, SessionCloseCapabilities, SessionDeleteCapabilities, SessionForkCapabilities,
    SessionListCapabilities, SessionResumeCapabilities,
};

impl Agent {
    /// Notes what the editor can do, and says what the agent can. Version 1 is the only one that it speaks.
    pub(crate) fn initialize(&self, request: InitializeRequest) -> Answered {
        self.editor.introduce(request.client_capabilities);
        let sessions = SessionCapabilities::new()
            .list(SessionListCapabilities::new())
            .resume(SessionResumeCapabilities::new())
            .close(SessionCloseCapabilities::new())
            .delete(SessionDeleteCapabilities::new())
            .fork(SessionForkCapabilities::new());
        let capabilities = AgentCapabilities::new()
            .load_session(true)
            .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
            .mcp_capabilities(McpCapabilities::new().http(true))
            .session_capabilities(sessions)
            .meta(hermes_meta(json!({ "sessionProvenance": true, "sessionKey": true, "memory": true })));
        let info = Implementation::new("herma", self.settings.version).title("Herma".to_owned());
        let response = InitializeResponse::new(ProtocolVersion::V1).agent_capabilities(capabilities).agent_info(info);
        Answered::new(&response)
    }
}

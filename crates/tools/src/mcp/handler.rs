//! What a server may ask of Herma: nothing. It may say that its tools have changed.
//!
//! The library itself refuses sampling; it would decline elicitation and answer with an empty list of roots.
#![expect(deprecated, reason = "servers of older revisions may still ask for roots")]

use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCreateRequestMethod,
    Implementation, ListRootsRequestMethod, ListRootsResult, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use tokio::sync::Notify;

/// Herma's side of a connection.
pub(super) struct Handler {
    pub(super) changes: Arc<Notify>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let herma = Implementation::new("herma", env!("CARGO_PKG_VERSION"));
        // The handshake cannot name a newer revision; the library sets that one itself where it is spoken.
        ClientConfig::new(ClientCapabilities::default(), herma)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.notify_one();
    }

    async fn create_elicitation(
        &self,
        _params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(ErrorData::method_not_found::<ElicitationCreateRequestMethod>())
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }
}

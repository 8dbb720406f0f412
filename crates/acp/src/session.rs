//! The sessions that the editor has open.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use herma_gateway::{FrontDoorTools, SessionTools};
use herma_model::{Alias, ConversationId, SessionKey};
use herma_store::{ConversationRow, Pin};
use herma_tools::ServerSettings;

use crate::agent::Agent;
use crate::editor_tools::{EditorTools, LABEL};
use crate::error::{of_session, unknown_session};
use crate::mcp_servers;
use crate::schema::{Error, McpServer, SessionId};

/// A session that the editor has open.
pub(crate) struct OpenSession {
    /// The id that the editor uses for it. Any name of the conversation can be one.
    pub(crate) id: SessionId,
    /// The conversation's own id, as a name.
    pub(crate) alias: Alias,
    /// The session key of its turns, if the editor has named one.
    pub(crate) session_key: Option<SessionKey>,
    pub(crate) conversation: ConversationId,
    /// The directory that the editor works in.
    pub(crate) cwd: PathBuf,
    /// The tools that it brings.
    pub(crate) tools: Arc<SessionTools>,
    /// Those of them that the editor itself carries out.
    pub(crate) editor_tools: Arc<EditorTools>,
    /// The title that the editor knows.
    title: Mutex<Option<String>>,
}

impl OpenSession {
    /// Notes the conversation's title. True if the editor knows another one.
    pub(crate) fn is_new_title(&self, title: Option<&str>) -> bool {
        let mut known = self.title.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_deref() == title {
            return false;
        }
        *known = title.map(str::to_owned);
        true
    }
}

/// Where the editor works, and the MCP servers that it has there.
pub(crate) struct WorkPlace {
    pub(crate) cwd: PathBuf,
    pub(crate) servers: Vec<ServerSettings>,
}

impl WorkPlace {
    /// Reads what the editor says of it.
    pub(crate) fn of(cwd: PathBuf, servers: Vec<McpServer>) -> Result<Self, Error> {
        let servers = mcp_servers::settings(servers, &cwd)?;
        Ok(Self { cwd, servers })
    }
}

/// The name of a conversation that never changes. The editor gets it as the id of its session.
pub(crate) fn id_of(conversation: ConversationId) -> SessionId {
    SessionId::from(conversation.to_string())
}

/// The sessions that are open, by the editor's ids.
#[derive(Default)]
pub(crate) struct OpenSessions(Mutex<HashMap<SessionId, Arc<OpenSession>>>);

impl OpenSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<OpenSession>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: &SessionId) -> Option<Arc<OpenSession>> {
        self.lock().get(id).cloned()
    }

    pub(crate) async fn close(&self, id: &SessionId) {
        let closed = self.lock().remove(id);
        if let Some(session) = closed {
            session.tools.close().await;
        }
    }

    /// Closes all sessions, and waits until their servers are gone.
    pub(crate) async fn close_all(&self) {
        let open = std::mem::take(&mut *self.lock());
        join_all(open.values().map(|session| session.tools.close())).await;
    }
}

impl Agent {
    /// The conversation that an id leads to.
    pub(crate) async fn find(&self, id: &SessionId) -> Result<ConversationRow, Error> {
        let alias = Alias::parse(&id.0).map_err(|_| unknown_session(id))?;
        self.sessions().find(&alias, Pin::Head).await.map_err(|error| of_session(id, &error))
    }

    /// Opens a session of the editor, in place of one that has the same id. Its servers begin to start.
    pub(crate) fn open(
        &self,
        id: SessionId,
        row: &ConversationRow,
        session_key: Option<SessionKey>,
        place: WorkPlace,
    ) -> Result<Arc<OpenSession>, Error> {
        let alias = Alias::parse(&row.facts.id.to_string()).map_err(|_| unknown_session(&id))?;
        let WorkPlace { cwd, servers } = place;
        let editor_tools = Arc::new(EditorTools {
            editor: self.editor.clone(),
            session: id.clone(),
            cwd: cwd.clone(),
            board: Arc::default(),
        });
        let own: Arc<dyn FrontDoorTools> = Arc::<EditorTools>::clone(&editor_tools);
        let tools = SessionTools::new(&self.gateway.settings().tools, LABEL, own, servers);
        tools.start();
        let title = Mutex::new(row.title.clone());
        let conversation = row.facts.id;
        let session = OpenSession { id: id.clone(), alias, session_key, conversation, cwd, tools, editor_tools, title };
        let session = Arc::new(session);
        self.open.lock().insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// The session of an id, and its conversation as it is now. A session that the editor has not opened is opened
    /// now, if its conversation exists.
    pub(crate) async fn opened(&self, id: &SessionId) -> Result<(Arc<OpenSession>, ConversationRow), Error> {
        let row = self.find(id).await?;
        let session = match self.open.get(id) {
            Some(session) => session,
            None => {
                let cwd = row.editor.cwd.as_deref().map_or_else(|| self.settings.cwd.clone(), PathBuf::from);
                self.open(id.clone(), &row, None, WorkPlace { cwd, servers: Vec::new() })?
            }
        };
        Ok((session, row))
    }
}

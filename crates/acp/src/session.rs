//! The sessions that the editor has open.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use herma_gateway::{FrontDoorTools, SessionTools};
use herma_model::{Alias, ConversationId, EventId, SessionKey};
use herma_store::{ConversationRow, Pin};
use herma_tools::ServerSettings;

use crate::agent::Agent;
use crate::editor_tools::{EditorTools, LABEL};
use crate::error::{of_session, unknown_session};
use crate::known::Known;
use crate::mcp_servers;
use crate::schema::{Error, McpServer, SessionId};
use crate::setup::described;

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
    /// What the editor knows of it.
    pub(crate) known: Arc<Known>,
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

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<OpenSession>> {
        self.lock().values().cloned().collect()
    }

    /// Those of a conversation. The editor may have it open by several ids.
    pub(crate) fn of(&self, conversation: ConversationId) -> Vec<Arc<OpenSession>> {
        self.lock().values().filter(|session| session.conversation == conversation).cloned().collect()
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
    ///
    /// `at` is a place of the event feed at which the row was true. News are told when the request is answered.
    pub(crate) async fn open(
        &self,
        id: SessionId,
        (row, at): (&ConversationRow, EventId),
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
        let conversation = row.facts.id;
        let (title, provenance) = (row.title.clone(), described(&id, row));
        let known = match self.open.get(&id).filter(|open| open.conversation == conversation) {
            Some(open) => {
                open.known.renew(title, provenance, at).await;
                Arc::clone(&open.known)
            }
            None => Arc::new(Known::new(title, provenance, at)),
        };
        let session = OpenSession { id: id.clone(), alias, session_key, conversation, cwd, tools, editor_tools, known };
        let session = Arc::new(session);
        self.open.lock().insert(id, Arc::clone(&session));
        self.news.return_to(at).await;
        Ok(session)
    }

    /// The session of an id, and its conversation as it is now. A session that the editor has not opened is opened
    /// now, if its conversation exists.
    pub(crate) async fn opened(&self, id: &SessionId) -> Result<(Arc<OpenSession>, ConversationRow), Error> {
        if let Some(session) = self.open.get(id) {
            return Ok((session, self.find(id).await?));
        }
        let (row, at) = self.find_with_place(id).await?;
        let cwd = row.editor.cwd.as_deref().map_or_else(|| self.settings.cwd.clone(), PathBuf::from);
        let session = self.open(id.clone(), (&row, at), None, WorkPlace { cwd, servers: Vec::new() }).await?;
        session.known.answered();
        Ok((session, row))
    }
}

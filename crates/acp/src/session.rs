//! The sessions that the editor has open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use herma_model::{Alias, ConversationId, SessionKey};
use herma_store::{ConversationRow, Pin};

use crate::agent::Agent;
use crate::error::{of_session, unknown_session};
use crate::schema::{Error, SessionId};

/// A session that the editor has open.
pub(crate) struct OpenSession {
    /// The id that the editor uses for it. Any name of the conversation can be one.
    pub(crate) id: SessionId,
    /// The conversation's own id, as a name.
    pub(crate) alias: Alias,
    /// The session key of its turns, if the editor has named one.
    pub(crate) session_key: Option<SessionKey>,
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

    pub(crate) fn close(&self, id: &SessionId) {
        self.lock().remove(id);
    }
}

impl Agent {
    /// The conversation that an id leads to.
    pub(crate) async fn find(&self, id: &SessionId) -> Result<ConversationRow, Error> {
        let alias = Alias::parse(&id.0).map_err(|_| unknown_session(id))?;
        self.sessions().find(&alias, Pin::Head).await.map_err(|error| of_session(id, &error))
    }

    /// Opens a session of the editor, in place of one that has the same id.
    pub(crate) fn open(
        &self,
        id: SessionId,
        row: &ConversationRow,
        session_key: Option<SessionKey>,
    ) -> Result<Arc<OpenSession>, Error> {
        let alias = Alias::parse(&row.facts.id.to_string()).map_err(|_| unknown_session(&id))?;
        let title = Mutex::new(row.title.clone());
        let session = Arc::new(OpenSession { id: id.clone(), alias, session_key, title });
        self.open.lock().insert(id, Arc::clone(&session));
        Ok(session)
    }

    /// The session of an id, and its conversation as it is now. A session that the editor has not opened is opened
    /// now, if its conversation exists.
    pub(crate) async fn opened(&self, id: &SessionId) -> Result<(Arc<OpenSession>, ConversationRow), Error> {
        let row = self.find(id).await?;
        let session = match self.open.get(id) {
            Some(session) => session,
            None => self.open(id.clone(), &row, None)?,
        };
        Ok((session, row))
    }
}

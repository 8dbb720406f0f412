//! `session/new`, `session/load`, `session/resume` and `session/fork`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use herma_gateway::{GatewayError, KeyProblem, NewFork, NewSession};
use herma_model::{Alias, SessionKey};
use herma_store::{BranchPoint, ConversationRow};

use crate::agent::{Agent, Answered, Handled, ORIGIN};
use crate::commands::available;
use crate::error::{bad_params, of_gateway, of_session, unknown_session};
use crate::options::modes;
use crate::provenance::provenance_meta;
use crate::schema::{
    Error, ForkSessionRequest, ForkSessionResponse, LoadSessionRequest, LoadSessionResponse, McpServer, Meta,
    NewSessionRequest, NewSessionResponse, ResumeSessionRequest, ResumeSessionResponse, SessionId,
};
use crate::session::{OpenSession, WorkPlace, id_of};

impl Agent {
    /// Makes a conversation.
    pub(crate) async fn new_session(&self, request: NewSessionRequest) -> Handled {
        let cwd = Some(absolute(&request.cwd)?);
        let place = WorkPlace::of(request.cwd, request.mcp_servers)?;
        let session_key = session_key(request.meta.as_ref())?;
        let new = NewSession { cwd, ..NewSession::main(ORIGIN, session_key.clone()) };
        let at = self.newest_event().await?;
        let row = self.sessions().create(new).await.map_err(|error| of_gateway(&error))?;
        let id = id_of(row.facts.id);
        let session = self.open(id.clone(), (&row, at), session_key, place).await?;
        let opening = self.opening(&session);
        let response = NewSessionResponse::new(id.clone())
            .modes(modes(&row))
            .config_options(self.options(&row).await)
            .meta(described(&id, &row));
        Ok(Answered::opening(&response, opening).then(&id, available()))
    }

    /// Opens a conversation, and sends all of it before the answer.
    pub(crate) async fn load_session(&self, request: LoadSessionRequest) -> Handled {
        let LoadSessionRequest { session_id: id, cwd, mcp_servers, meta, .. } = request;
        let (session, row) = self.take_up(&id, cwd, mcp_servers, meta.as_ref()).await?;
        let opening = self.opening(&session);
        self.replay(&session).await?;
        let response = LoadSessionResponse::new()
            .modes(modes(&row))
            .config_options(self.options(&row).await)
            .meta(described(&id, &row));
        let questions = self.open_questions(session, row).await;
        Ok(Answered::opening(&response, opening).then(&id, available()).then_ask_again(questions))
    }

    /// Opens a conversation whose messages the editor has.
    pub(crate) async fn resume_session(&self, request: ResumeSessionRequest) -> Handled {
        let ResumeSessionRequest { session_id: id, cwd, mcp_servers, meta, .. } = request;
        let (session, row) = self.take_up(&id, cwd, mcp_servers, meta.as_ref()).await?;
        let opening = self.opening(&session);
        let response = ResumeSessionResponse::new()
            .modes(modes(&row))
            .config_options(self.options(&row).await)
            .meta(described(&id, &row));
        let questions = self.open_questions(session, row).await;
        Ok(Answered::opening(&response, opening).then(&id, available()).then_ask_again(questions))
    }

    /// Makes a branch at the end of a conversation, and opens it.
    pub(crate) async fn fork_session(&self, request: ForkSessionRequest) -> Handled {
        let ForkSessionRequest { session_id: source, cwd, mcp_servers, meta, .. } = request;
        let (path, cwd) = (cwd.clone(), absolute(&cwd)?);
        let place = WorkPlace::of(path, mcp_servers)?;
        let found = self.find(&source).await?;
        let session_key = agreed_key(&found, meta.as_ref())?;
        let alias = Alias::parse(&found.facts.id.to_string()).map_err(|_| unknown_session(&source))?;
        let at = self.newest_event().await?;
        let row = self.branch(&source, alias, None, Some(cwd)).await?;
        let id = id_of(row.facts.id);
        let row = self.with_key(&id, row, session_key.as_ref()).await?;
        let session = self.open(id.clone(), (&row, at), session_key, place).await?;
        let opening = self.opening(&session);
        let response = ForkSessionResponse::new(id.clone())
            .modes(modes(&row))
            .config_options(self.options(&row).await)
            .meta(described(&id, &row));
        Ok(Answered::opening(&response, opening).then(&id, available()))
    }

    /// Makes a branch at the end of a conversation.
    pub(crate) async fn branch(
        &self,
        id: &SessionId,
        source: Alias,
        title: Option<String>,
        cwd: Option<Arc<str>>,
    ) -> Result<ConversationRow, Error> {
        let new = NewFork { origin: ORIGIN, source, at: BranchPoint::End, alias: None, title, metadata: None, cwd };
        self.sessions().branch(new).await.map_err(|error| of_session(id, &error))
    }

    /// Finds and opens the conversation of a request to load or resume it.
    async fn take_up(
        &self,
        id: &SessionId,
        cwd: PathBuf,
        servers: Vec<McpServer>,
        meta: Option<&Meta>,
    ) -> Result<(Arc<OpenSession>, ConversationRow), Error> {
        absolute(&cwd)?;
        let place = WorkPlace::of(cwd, servers)?;
        let (row, at) = self.find_with_place(id).await?;
        let session_key = agreed_key(&row, meta)?;
        let row = self.with_key(id, row, session_key.as_ref()).await?;
        let session = self.open(id.clone(), (&row, at), session_key, place).await?;
        Ok((session, row))
    }
}

impl Agent {
    /// The conversation with the session key that the editor names. It is stored now, as `session/new` does, and not
    /// with the first prompt.
    async fn with_key(
        &self,
        id: &SessionId,
        row: ConversationRow,
        named: Option<&SessionKey>,
    ) -> Result<ConversationRow, Error> {
        let Some(named) = named.filter(|named| row.facts.session_key.as_ref() != Some(named)) else { return Ok(row) };
        let alias = Alias::parse(&row.facts.id.to_string()).map_err(|_| unknown_session(id))?;
        self.sessions().bring_key(&alias, named.clone()).await.map_err(|error| of_session(id, &error))
    }
}

/// `_meta` of an answer that describes a session at its head.
pub(crate) fn described(id: &SessionId, row: &ConversationRow) -> Meta {
    provenance_meta(id, &row.facts, &row.facts.head)
}

/// A directory as it is stored.
pub(crate) fn absolute(path: &Path) -> Result<Arc<str>, Error> {
    let text = path.to_str().filter(|_| path.is_absolute());
    text.map(Arc::from).ok_or_else(|| bad_params("cwd has to be an absolute path"))
}

/// The session key that a request names in `_meta.hermes.sessionKey`.
fn session_key(meta: Option<&Meta>) -> Result<Option<SessionKey>, Error> {
    let named = meta.and_then(|meta| meta.get("hermes")).and_then(|hermes| hermes.get("sessionKey"));
    let Some(named) = named.filter(|named| !named.is_null()) else { return Ok(None) };
    let key = named.as_str().and_then(|text| SessionKey::parse(text).ok());
    key.map(Some).ok_or_else(|| bad_params("_meta.hermes.sessionKey is no session key"))
}

/// The same, for a conversation that may have one.
fn agreed_key(row: &ConversationRow, meta: Option<&Meta>) -> Result<Option<SessionKey>, Error> {
    let named = session_key(meta)?;
    match (&row.facts.session_key, &named) {
        (Some(stored), Some(named)) if stored != named => {
            Err(of_gateway(&GatewayError::SessionKey(KeyProblem::Conflict)))
        }
        _ => Ok(named),
    }
}

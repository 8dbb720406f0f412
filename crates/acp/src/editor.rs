//! The editor: what it is sent, and what it can do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::questions::{NoAnswer, Questions};
use crate::schema::{ClientCapabilities, Error, RequestId, SessionId, SessionNotification, SessionUpdate, method};
use crate::{lines, message};

/// The other side of the connection. Everything it is sent goes through one queue, so it arrives in this order.
#[derive(Clone)]
pub(crate) struct Editor {
    lines: mpsc::Sender<Vec<u8>>,
    questions: Arc<Questions>,
    /// `None` before `initialize`.
    capabilities: Arc<Mutex<Option<ClientCapabilities>>>,
}

/// What the editor can do for the agent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EditorAbilities {
    /// It reads text files.
    pub(crate) reads: bool,
    /// It writes text files.
    pub(crate) writes: bool,
    /// It runs commands in terminals.
    pub(crate) runs: bool,
}

impl Editor {
    pub(crate) fn new(lines: mpsc::Sender<Vec<u8>>) -> Self {
        let questions = Questions::new(lines.clone());
        Self { lines, questions, capabilities: Arc::default() }
    }

    /// Asks the editor, and waits for its answer. If the future is dropped, the editor is told to stop.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: &(impl Serialize + Sync),
    ) -> Result<T, NoAnswer> {
        self.questions.ask(method, params).await
    }

    /// Takes an answer of the editor.
    pub(crate) fn answered(&self, id: &RequestId, answer: Result<Box<RawValue>, Error>) {
        self.questions.answered(id, answer);
    }

    /// The input has ended: no answer comes any more.
    pub(crate) fn is_gone(&self) {
        self.questions.close();
    }

    /// Sends an update of a session. Waits while the editor reads slowly. If the editor is gone, nothing happens.
    pub(crate) async fn update(&self, session: &SessionId, update: SessionUpdate) {
        let notification = SessionNotification::new(session.clone(), update);
        let _ = self.lines.send(message::notification(method::UPDATE, notification)).await;
    }

    /// Sends updates of a session, in this order.
    pub(crate) async fn updates(&self, session: &SessionId, updates: impl IntoIterator<Item = SessionUpdate> + Send) {
        let updates: Vec<SessionUpdate> = updates.into_iter().collect();
        for update in updates {
            self.update(session, update).await;
        }
    }

    /// Answers a request. Waits while the editor reads slowly.
    pub(crate) async fn answer(&self, id: &RequestId, result: &Result<Box<RawValue>, Error>) {
        let _ = self.lines.send(message::answer(id, result)).await;
    }

    /// Whether the editor has said what it can do.
    pub(crate) fn is_known(&self) -> bool {
        self.lock().is_some()
    }

    /// Notes what the editor can do.
    pub(crate) fn introduce(&self, capabilities: ClientCapabilities) {
        *self.lock() = Some(capabilities);
    }

    /// What the editor can do for the agent.
    pub(crate) fn can(&self) -> EditorAbilities {
        let capabilities = self.lock();
        capabilities.as_ref().map_or_else(EditorAbilities::default, |can| EditorAbilities {
            reads: can.fs.read_text_file,
            writes: can.fs.write_text_file,
            runs: can.terminal,
        })
    }

    /// Sends the end: nothing is written after what was sent so far.
    pub(crate) async fn end(&self) {
        let _ = self.lines.send(lines::END).await;
    }

    /// Whether the editor shows compactions.
    pub(crate) fn shows_compactions(&self) -> bool {
        let capabilities = self.lock();
        let sessions = capabilities.as_ref().and_then(|capabilities| capabilities.session.as_ref());
        sessions.is_some_and(|sessions| sessions.compaction.is_some())
    }

    /// Whether the editor shows notices.
    pub(crate) fn shows_notices(&self) -> bool {
        let capabilities = self.lock();
        let sessions = capabilities.as_ref().and_then(|capabilities| capabilities.session.as_ref());
        sessions.is_some_and(|sessions| sessions.notices.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Option<ClientCapabilities>> {
        self.capabilities.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Tools that one session brings: those of the front door itself, and MCP servers that it names.
//!
//! They are offered beside the operator's, to turns of that session and to what these turns delegate. Nothing of them
//! is stored. A parked turn that is resumed is offered those that its front door lends at that time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use herma_model::{CallId, ConversationId, MessageId};
use herma_tools::{Approval, Audience, CallEnd, ServerSettings, Tool, Toolbox};

use super::settings::ToolSettings;
use crate::gateway::Gateway;

/// Which call is made.
#[derive(Debug, Clone)]
pub struct CallRef {
    /// The message that makes it.
    pub message: MessageId,
    /// Its id in that message.
    pub call: CallId,
}

/// How a call of a session's tool ended.
#[derive(Debug)]
pub struct SessionCallEnd {
    /// How it ended.
    pub end: CallEnd,
    /// The text that it replaced, if it changed a file. It is stored with the result, for front doors to show.
    pub old_text: Option<Arc<str>>,
}

impl From<CallEnd> for SessionCallEnd {
    fn from(end: CallEnd) -> Self {
        Self { end, old_text: None }
    }
}

/// Tools that a front door carries out itself. All of them have the label that [`SessionTools::new`] is given.
pub trait FrontDoorTools: Send + Sync + fmt::Debug {
    /// The tools. A denied one is not offered.
    fn tools(&self) -> Vec<Arc<Tool>>;

    /// Carries out a call. Not cancel-safe: if the future is dropped, the call is told to stop.
    fn call<'a>(&'a self, place: CallRef, tool: &'a Tool, arguments: &'a str) -> BoxFuture<'a, SessionCallEnd>;
}

/// The tools that one session brings. Dropping them ends the servers.
#[derive(Debug)]
pub struct SessionTools {
    label: &'static str,
    own: Arc<dyn FrontDoorTools>,
    servers: Arc<Toolbox>,
}

impl SessionTools {
    /// Tools of a front door under a label, and servers. The servers get labels that no other server has.
    pub fn new(
        settings: &ToolSettings,
        label: &'static str,
        own: Arc<dyn FrontDoorTools>,
        servers: Vec<ServerSettings>,
    ) -> Arc<Self> {
        let taken: Vec<&str> = settings.labels().chain([label]).collect();
        Arc::new(Self { label, own, servers: Toolbox::beside(servers, &taken) })
    }

    /// Begins to start the servers. Returns at once. Has to be called inside a Tokio runtime.
    pub fn start(&self) {
        self.servers.begin(ALL);
    }

    /// Ends the servers, and waits until their processes are gone. Cancel-safe.
    pub async fn close(&self) {
        self.servers.close().await;
    }

    /// The tools, without denied ones. Waits for servers that are starting. Cancel-safe.
    pub(crate) async fn offered(&self) -> Vec<Arc<Tool>> {
        let mut tools = self.own.tools();
        tools.retain(|tool| tool.approval != Approval::Deny);
        tools.extend(self.servers.offered(ALL).await);
        tools
    }

    /// Carries out a call. Not cancel-safe.
    pub(crate) async fn call(&self, place: CallRef, tool: &Tool, arguments: &str) -> SessionCallEnd {
        if &*tool.server == self.label {
            return self.own.call(place, tool, arguments).await;
        }
        self.servers.call(tool, arguments).await.into()
    }
}

/// The servers of a session are for all its turns.
const ALL: Audience<'static> = Audience { tenant: "", session_key: None };

/// The tools that front doors lend to turns that are resumed.
#[derive(Default)]
pub(crate) struct LentTools(Mutex<HashMap<ConversationId, Arc<SessionTools>>>);

impl LentTools {
    fn lock(&self) -> MutexGuard<'_, HashMap<ConversationId, Arc<SessionTools>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn of(&self, conversation: ConversationId) -> Option<Arc<SessionTools>> {
        self.lock().get(&conversation).cloned()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

/// A loan of tools. Dropping it ends the loan.
pub struct Lent {
    gateway: Arc<Gateway>,
    conversation: ConversationId,
    tools: Arc<SessionTools>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut lent = self.gateway.lent_tools.lock();
        if lent.get(&self.conversation).is_some_and(|tools| Arc::ptr_eq(tools, &self.tools)) {
            lent.remove(&self.conversation);
        }
    }
}

impl Gateway {
    /// Lends tools to the turn of a conversation that waits for a person, for the time after it is resumed.
    pub fn lend_tools(self: &Arc<Self>, conversation: ConversationId, tools: Arc<SessionTools>) -> Lent {
        self.lent_tools.lock().insert(conversation, Arc::clone(&tools));
        Lent { gateway: Arc::clone(self), conversation, tools }
    }
}
